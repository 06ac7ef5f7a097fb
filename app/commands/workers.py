"""Which workers there are and who leads a destination, as ZooKeeper has it: for commands that wait for them.

Invariant: it only reads; where ZooKeeper does not answer, it says so and raises nothing.
"""

from __future__ import annotations

import asyncio

from app.commands.journal_access import Journal
from app.coordination.cluster_view import View, read_views
from app.coordination.znodes import Nodes
from app.wiring import coordination_plan
from connectors.errors import AqueductError
from connectors.zookeeper.kazoo_session import opens


def workers_text(asked: Journal) -> str:
    """Why no worker may have applied a request, for people."""
    coordination = coordination_plan(asked.settings)
    if coordination is None:
        return "no worker of these settings seems to run"
    client, root, _ = coordination
    name, nodes = asked.plan.name, Nodes(root)

    async def look() -> tuple[list[str], View]:
        async with opens(client)(lambda: None) as session:
            workers = await session.children(nodes.workers)
            return sorted(workers), (await read_views(session, nodes, [name]))[name]

    try:
        workers, view = asyncio.run(look())
    except AqueductError as error:
        return f"and who leads it is not known: {error.name}: {error.detail}"
    return _text(workers, view)


def _text(workers: list[str], view: View) -> str:
    if not workers:
        return "no worker runs"
    running = f"{', '.join(workers)} {'runs' if len(workers) == 1 else 'run'}"
    if not view.exists:
        return f"{running}, and no worker leads it"
    return f"{running}, and {view.leader or 'somebody'} leads it"
