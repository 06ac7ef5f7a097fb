"""`python -m app schema check`: compare the history of every table with the server's present
definition.

Exit 1 if they differ.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal
from app.operator.event_loop import run_operation
from app.operator.operations.schema.server_check import (
    Pause,
    ServerComparison,
    compare_with_server,
)
from app.operator.output import difference_value, print_answer
from app.settings.model import load
from connectors.mysql.schema.baseline import Baseline

_WAIT = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and how long to wait for its worker."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--wait",
        type=float,
        default=_WAIT,
        metavar="SECONDS",
        help="how long to wait until the worker reaches the server's present position (default: %(default)s)",
    )
    arguments.add_format(parser)


def read_server_tables(destination: str) -> Awaitable[Baseline]:
    """Return the server's present tables."""
    # Only here is the journal read for the current source.
    from app.operator.journal_access import Journal
    from app.operator.operations.schema.server_tables import read_source_tables
    from app.operator.terminal import report_unreachable

    return read_source_tables(Journal.of(load(), destination), report_unreachable)


def run(
    options: argparse.Namespace,
    read_by_name: ReadByName = from_journal,
    ask: Callable[[str], Awaitable[Baseline]] = read_server_tables,
    pause: Pause = asyncio.sleep,
) -> int:
    """Print the differences; return the exit code."""
    name = options.destination
    found = run_operation(
        compare_with_server(
            partial(read_by_name, name), partial(ask, name), wait=options.wait, pause=pause
        )
    )
    print_answer(options.format, _value(found), _lines(found))
    return 1 if found.deviations else 0


def _value(found: ServerComparison) -> dict[str, Any]:
    server, read_to = found.server, found.history.cursor.offset
    return {
        "destination": found.history.cursor.destination,
        "server_at": _offset(str(server.at.coordinates), server.at.gtid_set),
        "history_at": _offset(str(read_to.coordinates), read_to.gtid_set),
        "same_place": found.is_same_position,
        "tables": len(server.tables),
        "differences": [
            {"table": one.table, **difference_value(one.difference)} for one in found.deviations
        ],
        "not_seen": {".".join(name): reason for name, reason in server.unseen.items()},
    }


def _offset(coordinates: str, gtid_set: object) -> dict[str, Any]:
    return {"coordinates": coordinates, "gtid_set": None if gtid_set is None else str(gtid_set)}


def _lines(found: ServerComparison) -> Iterator[str]:
    server = found.server
    if not found.is_same_position:
        yield f"The worker has reached {found.history.cursor.offset.coordinates}; the server answered at"
        yield f"{server.at.coordinates}. Changes in between are reported as differences too."
    for one in found.deviations:
        yield f"{one.table}: {one.difference}"
    for name, reason in server.unseen.items():
        yield f"{'.'.join(name)}: not compared, {reason}"
    if not found.deviations:
        yield f"{len(server.tables)} table(s) of the server match the history"
