"""`python -m app schema resolve`: how a table that is set aside is to be read, so that it comes back.

The law: nothing is changed here but the journal; the worker tries what was said on everything that waits, and
says whether it fits. What does not fit is published no further, and can be said again. Rows are given up only
by whoever says so twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from pathlib import Path

from app.commands import arguments
from app.commands.journal_access import Journal, operator
from app.commands.output import answer
from app.commands.request_outcome import UNCONFIRMED, add_waiting, by_whom, untried
from app.commands.source_connection import reached
from connectors.errors import NotSetAside, UsageError, printed
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Session, Table
from connectors.mysql.schema.baseline import read_baseline, server_of
from tables.journal.state import DestinationState
from tables.quarantine import GIVE_UP, Entry, Outcome, Resolution, note_of

Name = tuple[str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a table, and where its definition comes from."""
    parser.epilog = (
        "The definition is that of the first row that waits; statements that wait behind it take effect "
        "where they stand. The worker tries it by itself; `schema quarantine` tells the outcome later too."
    )
    arguments.add_destination(parser)
    arguments.add_table(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--server", action="store_true", help="as the server has it now")
    source.add_argument(
        "--binlog", action="store_true",
        help="as the binlog itself tells with each row, which binlog_row_metadata=FULL makes it do",
    )  # fmt: skip
    source.add_argument(
        "--definition", type=Path, metavar="FILE.sql", help="a CREATE TABLE statement"
    )
    source.add_argument(
        "--statement", metavar="SQL",
        help="an ALTER TABLE, for the definition that its history had before it was set aside",
    )  # fmt: skip
    source.add_argument(
        "--give-up", action="store_true",
        help="lose what waits, and what comes of the table until it is made anew or resolved",
    )  # fmt: skip
    parser.add_argument(
        "--yes-lose-rows", action="store_true", help="with --give-up: that is what is wanted"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_waiting(parser)


def _told(options: argparse.Namespace) -> str:
    """The table, for people."""
    return ".".join(options.table)


def _source(options: argparse.Namespace) -> str:
    """Where the definition comes from, as the journal has it."""
    if options.give_up:
        return GIVE_UP
    if options.server:
        return "server"
    if options.binlog:
        return "binlog"
    return "statement" if options.statement else "definition"


def run(options: argparse.Namespace) -> int:
    """Say it; 0 once that is done, 1 where it was refused or nothing has come of it in
    time, 2 where rows would be lost and nobody said so."""
    if options.give_up and not options.yes_lose_rows:
        sys.stderr.write(
            f"What waits of {printed(_told(options))} and what comes of it later would be lost to subscribers. "
            "If that is wanted, say --yes-lose-rows too.\n"
        )
        return 2
    asked, name = Journal.of(options.destination), options.table
    state = asked.state()
    entry = state.quarantine.entries.get(name)
    if entry is None or not (entry.is_set_aside or (entry.is_given_up and not options.give_up)):
        raise NotSetAside(table=_told(options), destination=options.destination)
    resolution = Resolution(
        destination=options.destination,
        name=name,
        id=uuid.uuid4().hex[:12],
        table=_definition(options, asked, state, entry),
        by=operator(),
        ts_ms=time.time_ns() // 1_000_000,
        source=_source(options),
    )
    began = time.monotonic()
    asked.write(note_of(resolution))
    if options.no_wait:
        code, told = 0, UNCONFIRMED
    else:
        code, told = _outcome(asked, resolution, options.timeout, began)
    if options.format == "json":
        sys.stdout.write(
            json.dumps({"table": _told(options), "resolution": resolution.id, "told": told}) + "\n"
        )
    else:
        answer("text", None, [f"{_told(options)}: {told}"])
    return code


def _definition(
    options: argparse.Namespace, asked: Journal, state: DestinationState, entry: Entry
) -> Table | None:
    if options.binlog or options.give_up:
        return None
    if options.server:
        return _as_on_the_server(asked, state, entry.name)
    history = state.history()
    if options.statement:
        before = history.at(entry.since).find(*entry.name) if history is not None else None
        if before is None:
            raise UsageError(
                f"the history has no definition of {_told(options)} before it was set aside; "
                "give one with --definition"
            )
        return _made(asked, state, entry.name, before, options.statement)
    try:
        text = options.definition.read_text("utf-8")
    except OSError as fault:
        raise UsageError(f"{options.definition}: {fault.strerror}") from None
    return _made(asked, state, entry.name, None, text)


def _as_on_the_server(asked: Journal, state: DestinationState, name: Name) -> Table:
    source = reached(asked, state)
    table = read_baseline(source.address, source.facts).tables.get(name)
    if table is None:
        raise UsageError(f"the server has no table {'.'.join(name)}, or the account may not see it")
    return table


def _made(
    asked: Journal, state: DestinationState, name: Name, before: Table | None, sql: str
) -> Table:
    """What a statement makes of the table; DdlUnresolved says what in it is not understood."""
    catalog = Catalog(server_of(reached(asked, state).facts))
    history = state.history()
    for database, value in (history.now().databases() if history is not None else {}).items():
        catalog.put_database(database, value)
    if before is not None:
        catalog.put(name, before)
    catalog.apply(sql.strip(), Session(database=name[0]))
    table = catalog.get(name)
    if table is None:
        raise UsageError(f"the statement does not make {'.'.join(name)}")
    return table


def _outcome(
    asked: Journal, resolution: Resolution, seconds: float, began: float
) -> tuple[int, str]:
    """The exit code, and in words what has come of it."""

    def is_tried(state: DestinationState) -> bool:
        entry = state.quarantine.entries[resolution.name]
        return entry.resolution == resolution.id and entry.outcome is not Outcome.RELEASING

    state = asked.wait(is_tried, seconds)
    if state is None:
        raise untried(asked, "schema resolve", seconds)
    entry = state.quarantine.entries[resolution.name]
    if entry.is_given_up:
        return 0, (
            f"is given up; {entry.lost} event(s) that waited are lost, and so is what comes of it until a "
            "statement makes it anew or somebody resolves it"
        )
    if entry.is_set_aside:
        return 1, f"refused, it stays set aside: {entry.reason}"
    return 0, f"is back; all that waited is published{by_whom(state, began)}"
