"""Running workers and a destination's leader, from ZooKeeper: the reason why a request was not
applied.

Invariant: it only reports; if ZooKeeper does not answer, it states that and raises nothing.
"""

from __future__ import annotations

from app.settings.model import Settings
from app.worker.coordination.cluster_view import View, read_views
from app.worker.coordination.znodes import Nodes
from app.worker.wiring import coordination_plan
from connectors.errors import AqueductError
from connectors.zookeeper.kazoo_session import opens


async def why_not_applied(settings: Settings, name: str) -> str:
    """Return as text why no worker may have applied a request to a destination or another unit of work."""
    coordination = coordination_plan(settings)
    if coordination is None:
        return "no worker with these settings seems to be running"
    client, root, _ = coordination
    nodes = Nodes(root)
    try:
        async with opens(client)(lambda: None) as session:
            workers = sorted(await session.children(nodes.workers))
            view = (await read_views(session, nodes, [name]))[name]
    except AqueductError as error:
        return f"the leader is unknown: {error.name}: {error.detail}"
    return _text(workers, view)


def _text(workers: list[str], view: View) -> str:
    if not workers:
        return "no worker runs"
    running = f"worker(s) {', '.join(workers)} running"
    if not view.exists:
        return f"{running}, none leads it"
    return f"{running}, {view.leader or 'an unknown worker'} leads it"
