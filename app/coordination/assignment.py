"""Which worker is to lead which destination: all workers come to the same answer from the same nodes.

The law: nobody is asked and no clock is read. Who leads goes on leading unless that leaves another worker with
two destinations fewer; so a worker that comes or goes moves as few as can be, and none moves twice. One that is
not ready, as it has just been started, gets nothing that another is ready to lead or leads.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A destination as the nodes show it."""

    candidates: frozenset[str]
    """Workers that could lead it."""
    ready: frozenset[str] | None = None
    """Those of them that could lead without delay; None: all."""
    leader: str | None = None

    @property
    def fit(self) -> frozenset[str]:
        """Those that it may be moved to."""
        return self.candidates if self.ready is None else self.candidates & self.ready


def leaders(destinations: Mapping[str, Seen]) -> dict[str, str]:
    """From each destination that has a candidate to the worker that is to lead it."""
    wanted = {
        name: seen.leader
        for name, seen in destinations.items()
        if seen.leader is not None and seen.leader in seen.candidates
    }
    load = _load(destinations.values(), wanted.values())
    for name in sorted(destinations.keys() - wanted.keys()):
        candidates = destinations[name].fit or destinations[name].candidates
        if candidates:
            wanted[name] = _least(name, candidates, load)
            load[wanted[name]] += 1
    while (move := _move(destinations, wanted, load)) is not None:
        name, worker = move
        load[wanted[name]] -= 1
        load[worker] += 1
        wanted[name] = worker
    return wanted


def _load(seen: Iterable[Seen], leading: Iterable[str]) -> dict[str, int]:
    load = {worker: 0 for each in seen for worker in each.candidates}
    for worker in leading:
        load[worker] += 1
    return load


def _move(
    destinations: Mapping[str, Seen], wanted: Mapping[str, str], load: Mapping[str, int]
) -> tuple[str, str] | None:
    """The move that evens out most; None where all is even."""
    best: tuple[int, int, str, str] | None = None
    for name, leader in wanted.items():
        if not destinations[name].fit:
            continue
        worker = _least(name, destinations[name].fit, load)
        gain = load[leader] - load[worker]
        order = (gain, _hash(name, worker), name, worker)
        if gain >= 2 and (best is None or order > best):
            best = order
    return None if best is None else best[2:]


def _least(name: str, candidates: Iterable[str], load: Mapping[str, int]) -> str:
    """The worker with the least to do; by chance, but the same everywhere, among equal ones."""
    return min(candidates, key=lambda worker: (load[worker], _hash(name, worker), worker))


def _hash(name: str, worker: str) -> int:
    return zlib.crc32(f"{name}\0{worker}".encode())
