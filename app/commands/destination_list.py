"""`python -m app destination list`: all destinations, their leaders, and what is wanted of them.

The law: it reads the journal and ZooKeeper, and changes nothing; without an answer of ZooKeeper it says so and
tells what the journal has.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from app.commands.journal import Journal
from app.commands.report import aligned, answer
from app.leadership_nodes import Nodes
from app.leadership_view import View, looked
from app.plans import coordination_plan
from app.settings import Settings, load
from connectors.errors import AqueductError
from connectors.zookeeper.session import opens
from tables.control import Wish

_HEAD = ("destination", "wish", "leader", "epoch", "candidates", "position")


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the form of the answer."""
    parser.add_argument("--all", action="store_true", help="those that were deleted, too")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    """Print them; 0 where all could be asked, 1 where ZooKeeper did not answer."""
    settings = load()
    views, fault = _views(settings)
    told = [_told(name, views.get(name)) for name in sorted(settings.destinations)]
    shown = [each for each in told if options.all or each["wish"] != Wish.DELETE.value]
    rows = [[_cell(each[column]) for column in _HEAD] for each in shown]
    answer(options.format, shown, aligned(list(_HEAD), rows))
    if fault is not None:
        sys.stderr.write(f"aqueduct: {fault.name}: {fault}\n")
    return 0 if fault is None else 1


def _told(name: str, view: View | None) -> dict[str, Any]:
    state = Journal.of(name).now()
    cursor, said = state.cursor, state.control
    return {
        "destination": name,
        "wish": (said.wish if said else Wish.RUN).value,
        "said_by": said.by if said else None,
        "leader": view.leader if view else None,
        "address": view.address if view else None,
        "candidates": sorted(view.candidates) if view else [],
        "epoch": cursor.epoch if cursor else None,
        "seq": cursor.seq if cursor else None,
        "position": str(cursor.offset.coordinates) if cursor else None,
    }


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value) or "-"
    return "-" if value is None else str(value)


def _views(settings: Settings) -> tuple[dict[str, View], AqueductError | None]:
    """What ZooKeeper has; nothing without it."""
    coordination = coordination_plan(settings)
    if coordination is None:
        return {}, None
    client, root, _ = coordination

    async def look() -> dict[str, View]:
        async with opens(client)(lambda: None) as session:
            return await looked(session, Nodes(root), settings.destinations)

    try:
        return asyncio.run(look()), None
    except AqueductError as error:
        return {}, error
