"""The paths of nodes in ZooKeeper, and the content of a destination's nodes, read at one time.

Invariant: reading sets a watch for the next change; a change between two reads causes another read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

import orjson

from app.worker.coordination.assignment import DestinationView
from connectors.zookeeper.protocol import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A destination, as its nodes show it."""

    candidates: frozenset[str]
    """Workers whose node ends with a session; a node made by hand does not count."""
    ready: frozenset[str] = frozenset()
    """The candidates that could lead without delay."""
    exists: bool = False
    """Whether the leader's node exists."""
    owner: int = 0
    """The session that owns the leader's node; 0 if the node was made by hand."""
    leader: str | None = None
    address: str | None = None

    def seen(self) -> DestinationView:
        """Return the destination as the assignment sees it."""
        return DestinationView(candidates=self.candidates, ready=self.ready, leader=self.leader)

    def with_candidate(self, worker: str, *, ready: bool) -> View:
        """Return the view with one more candidate, ready or not."""
        others = self.ready - {worker}
        return replace(
            self,
            candidates=self.candidates | {worker},
            ready=others | {worker} if ready else others,
        )

    def without_candidate(self, worker: str) -> View:
        """Return the view without a candidate."""
        return replace(self, candidates=self.candidates - {worker}, ready=self.ready - {worker})


async def read_views(session: Session, nodes: Nodes, names: Iterable[str]) -> dict[str, View]:
    """Return the views of these destinations, in their order."""
    wanted = sorted(names)
    views = await asyncio.gather(*(_look(session, nodes, name) for name in wanted))
    return dict(zip(wanted, views, strict=True))


async def _look(session: Session, nodes: Nodes, name: str) -> View:
    below, candidates = await asyncio.gather(
        session.children(nodes.destination(name)), session.children(nodes.candidates(name))
    )
    made = await asyncio.gather(
        *(session.read(nodes.candidate(name, worker)) for worker in candidates)
    )
    living = {
        worker: is_ready(node.data)
        for worker, node in zip(candidates, made, strict=True)
        if node and node.owner
    }
    ready = frozenset(worker for worker, could in living.items() if could)
    seen = View(candidates=frozenset(living), ready=ready)
    node = await session.read(nodes.running(name)) if "running" in below else None
    if node is None:
        return seen
    worker, address = _worker_and_address(node.data)
    return replace(seen, exists=True, owner=node.owner, leader=worker, address=address)


def _worker_and_address(data: bytes) -> tuple[str | None, str | None]:
    """Return id and address from a node, which may contain anything written by hand."""
    try:
        value = orjson.loads(data)
        worker, address = value["worker"], value["address"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None, None
    return (
        worker if isinstance(worker, str) else None,
        address if isinstance(address, str) else None,
    )


# Paths and contents of an installation's ZooKeeper nodes, as Canal lays them out.
#
# Invariant: `running` and all candidates are ephemeral. Contents are for operators; a worker
# relies only on the root's prefix, the leader's id, and whether a candidate is ready.


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
