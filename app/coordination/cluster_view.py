"""What the nodes of a destination say, as they were read at one look.

The law: to look is to be told of the next change; a change between two reads of one look makes another look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

import orjson

from app.coordination.assignment import Seen
from app.coordination.znodes import Nodes, is_ready
from connectors.zookeeper.protocol import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A destination."""

    candidates: frozenset[str]
    """Workers whose node ends with a session; what somebody made by hand is nobody."""
    ready: frozenset[str] = frozenset()
    """Those of them that could lead without delay."""
    exists: bool = False
    """Whether there is a node that says who leads."""
    owner: int = 0
    """The session that node ends with; 0: somebody made it by hand."""
    leader: str | None = None
    address: str | None = None

    def seen(self) -> Seen:
        """As the balance looks at it."""
        return Seen(candidates=self.candidates, ready=self.ready, leader=self.leader)

    def with_candidate(self, worker: str, *, ready: bool) -> View:
        """The same with one who could lead, at once or not."""
        others = self.ready - {worker}
        return replace(
            self,
            candidates=self.candidates | {worker},
            ready=others | {worker} if ready else others,
        )

    def without_candidate(self, worker: str) -> View:
        """The same with one less who could lead."""
        return replace(self, candidates=self.candidates - {worker}, ready=self.ready - {worker})


async def read_views(session: Session, nodes: Nodes, names: Iterable[str]) -> dict[str, View]:
    """All these destinations, in their order."""
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
    worker, address = _who(node.data)
    return replace(seen, exists=True, owner=node.owner, leader=worker, address=address)


def _who(data: bytes) -> tuple[str | None, str | None]:
    """Id and address in a node; people may have written anything there."""
    try:
        value = orjson.loads(data)
        worker, address = value["worker"], value["address"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None, None
    return (
        worker if isinstance(worker, str) else None,
        address if isinstance(address, str) else None,
    )
