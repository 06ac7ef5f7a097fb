"""Paths and contents of an installation's ZooKeeper nodes, as Canal lays them out.

Invariant: ``running`` and all candidates are ephemeral. Contents are for operators; a worker relies only on
the root's prefix, the leader's id, and whether a candidate is ready.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Nodes:
    """The paths below one root."""

    root: str

    @property
    def destinations(self) -> str:
        """The parent of all destinations."""
        return f"{self.root}/destinations"

    @property
    def workers(self) -> str:
        """The parent of all live workers."""
        return f"{self.root}/cluster"

    def worker(self, worker: str) -> str:
        """A live worker."""
        return f"{self.workers}/{worker}"

    def destination(self, name: str) -> str:
        """The parent of one destination's nodes."""
        return f"{self.destinations}/{name}"

    def running(self, name: str) -> str:
        """The leader of one destination."""
        return f"{self.destination(name)}/running"

    def candidates(self, name: str) -> str:
        """The parent of one destination's candidates."""
        return f"{self.destination(name)}/cluster"

    def candidate(self, name: str, worker: str) -> str:
        """A worker that could lead one destination."""
        return f"{self.candidates(name)}/{worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A worker, as its nodes show it to operators and other workers."""

    worker: str
    address: str

    def data(self, epoch: int | None = None) -> bytes:
        """Return the content of the worker's nodes, with the epoch in which it leads, if given."""
        value = {"worker": self.worker, "address": self.address}
        return orjson.dumps(value if epoch is None else {**value, "epoch": epoch})

    def offer(self, *, ready: bool) -> bytes:
        """Return the content of the worker's candidate nodes: whether it could lead without delay."""
        return orjson.dumps({"worker": self.worker, "address": self.address, "ready": ready})


def is_ready(data: bytes) -> bool:
    """Return whether a candidate could lead without delay; True for a node of an older version, without it."""
    try:
        value = orjson.loads(data)
        return bool(value.get("ready", True))
    except (orjson.JSONDecodeError, AttributeError):
        return True
