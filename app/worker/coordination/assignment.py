"""The assignment of destinations to workers: all workers reach the same result from the same nodes.

Invariant: no worker is asked and no clock is read. A leader keeps its destination unless another
worker leads at least two destinations fewer. So a worker that joins or leaves moves as few
destinations as possible, and none twice. A worker that has just started, and is not ready yet, gets
no destination that another worker leads or is ready to lead.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationView:
    """A destination as the nodes show it."""

    candidates: frozenset[str]
    """Workers that could lead it."""
    ready: frozenset[str] | None = None
    """The candidates that could lead without delay; None: all."""
    leader: str | None = None

    @property
    def fit(self) -> frozenset[str]:
        """Return the workers that the destination may be moved to."""
        return self.candidates if self.ready is None else self.candidates & self.ready


def leaders(destinations: Mapping[str, DestinationView]) -> dict[str, str]:
    """Return the worker that is to lead each destination that has a candidate."""
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


def _load(seen: Iterable[DestinationView], leading: Iterable[str]) -> dict[str, int]:
    load = {worker: 0 for each in seen for worker in each.candidates}
    for worker in leading:
        load[worker] += 1
    return load


def _move(
    destinations: Mapping[str, DestinationView], wanted: Mapping[str, str], load: Mapping[str, int]
) -> tuple[str, str] | None:
    """Return the move that balances most; None if all is balanced."""
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
    """Return the least loaded worker; among equals, a hash decides, with the same result on every worker."""
    return min(candidates, key=lambda worker: (load[worker], _hash(name, worker), worker))


def _hash(name: str, worker: str) -> int:
    return zlib.crc32(f"{name}\0{worker}".encode())
