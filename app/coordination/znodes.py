"""Where the nodes of an installation are in ZooKeeper, and what is in them: as Canal lays them out.

The law: ``running`` and all candidates are ephemeral; what is in a node is for people, and no worker believes
more of it than the id of who leads.
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
        """Below it stands each destination."""
        return f"{self.root}/destinations"

    @property
    def workers(self) -> str:
        """Below it stands each worker that lives."""
        return f"{self.root}/cluster"

    def worker(self, worker: str) -> str:
        """Says that a worker lives."""
        return f"{self.workers}/{worker}"

    def destination(self, name: str) -> str:
        """All of one destination."""
        return f"{self.destinations}/{name}"

    def running(self, name: str) -> str:
        """Who leads it."""
        return f"{self.destination(name)}/running"

    def candidates(self, name: str) -> str:
        """Below it, who could lead it."""
        return f"{self.destination(name)}/cluster"

    def candidate(self, name: str, worker: str) -> str:
        """Says that a worker could lead it."""
        return f"{self.candidates(name)}/{worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A worker, as its nodes show it to people and to other workers."""

    worker: str
    address: str

    def data(self, epoch: int | None = None) -> bytes:
        """The content of its nodes; the epoch is that in which it leads."""
        value = {"worker": self.worker, "address": self.address}
        return orjson.dumps(value if epoch is None else {**value, "epoch": epoch})

    def offer(self, *, ready: bool) -> bytes:
        """The content of its nodes as a candidate: whether it could lead without delay."""
        return orjson.dumps({"worker": self.worker, "address": self.address, "ready": ready})


def is_ready(data: bytes) -> bool:
    """Whether a candidate could lead without delay, by its node; one of an older version does not say."""
    try:
        value = orjson.loads(data)
        return bool(value.get("ready", True))
    except (orjson.JSONDecodeError, AttributeError):
        return True
