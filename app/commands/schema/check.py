"""`python -m app schema check`: whether the history says of every table what the server says now.

The law: they are compared at one place of the binlog, that of the server's answer. If the worker does not get
there in time, the history's end is compared instead, and the answer says so. Exit 1 where they differ.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from app.commands import arguments
from app.commands.output import answer, difference_value
from app.commands.schema_history import Tell, ToldHistory, told
from connectors.mysql.schema.baseline import Baseline, read_baseline
from tables.schema_history.position import HistoryPlace, reached
from tables.schema_history.server_check import Deviation, deviations

_WAIT = 10.0
_PAUSE = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination, and how long to wait for its worker."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--wait",
        type=float,
        default=_WAIT,
        metavar="SECONDS",
        help="how long the worker may take to get to the server's present place (%(default)s)",
    )
    arguments.add_format(parser)


def live(destination: str) -> Baseline:
    """What the server says now."""
    # Only here is the journal asked which source is read.
    from app.commands.journal_access import Journal
    from app.commands.source_connection import reached as answering

    asked = Journal.of(destination)
    source = answering(asked, asked.now())
    return read_baseline(source.address, source.facts)


def run(
    options: argparse.Namespace,
    tell: Tell = told,
    ask: Callable[[str], Baseline] = live,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Print what differs; the exit code."""
    # The history first: where there is none, no server need be asked.
    tell(options.destination)
    server = ask(options.destination)
    found = _at_the_server(options, server, tell, pause)
    is_there = _has_reached(found, server)
    view = found.history.at(server.at) if is_there else found.history.now()
    deviating = deviations(
        view,
        server.tables,
        server.databases,
        server=server.server,
        unseen=server.unseen,
    )
    value = {
        "destination": options.destination,
        "server_at": _offset(str(server.at.coordinates), server.at.gtid_set),
        "history_at": _offset(str(found.cursor.offset.coordinates), found.cursor.offset.gtid_set),
        "same_place": is_there,
        "tables": len(server.tables),
        "differences": [
            {"table": one.table, **difference_value(one.difference)} for one in deviating
        ],
        "not_seen": {".".join(name): reason for name, reason in server.unseen.items()},
    }
    answer(options.format, value, _lines(found, server, deviating, is_there=is_there))
    return 1 if deviating else 0


def _at_the_server(
    options: argparse.Namespace,
    server: Baseline,
    tell: Tell,
    pause: Callable[[float], None],
) -> ToldHistory:
    """The history, once its worker has got to the server's place; or as it is when the time is over."""
    left = options.wait
    while True:
        found = tell(options.destination)
        if _has_reached(found, server) or left <= 0:
            return found
        pause(_PAUSE)
        left -= _PAUSE


def _has_reached(found: ToldHistory, server: Baseline) -> bool:
    return bool(reached(HistoryPlace.between(server.at, ts_ms=0), found.cursor.offset))


def _offset(coordinates: str, gtid_set: object) -> dict[str, Any]:
    return {"coordinates": coordinates, "gtid_set": None if gtid_set is None else str(gtid_set)}


def _lines(
    found: ToldHistory, server: Baseline, deviating: list[Deviation], *, is_there: bool
) -> Iterator[str]:
    if not is_there:
        yield f"The worker has got to {found.cursor.offset.coordinates}; the server answered at"
        yield f"{server.at.coordinates}. What was changed in between differs here too."
    for one in deviating:
        yield f"{one.table}: {one.difference}"
    for name, reason in server.unseen.items():
        yield f"{'.'.join(name)}: not compared, {reason}"
    if not deviating:
        yield f"{len(server.tables)} table(s) of the server are as the history has them"
