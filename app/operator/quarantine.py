"""`schema quarantine` and `schema resolve`: list quarantined and given-up tables; release one by a definition.

Invariant: only the journal is changed here; the worker tries the definition on all quarantined events, and
reports whether it fits. Events that do not fit stay quarantined, and can be resolved again. Rows are given up
only if requested twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

from app.operator import arguments
from app.operator.journal_access import Journal
from app.operator.mapping import with_mapping_in_force
from app.operator.schema import given_value
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.operator.terminal import (
    operator,
    print_answer,
    report_unreachable,
    run_operation,
)
from app.operator.worker_answer import (
    UNCONFIRMED,
    Answer,
    add_waiting,
    answer_to,
    done_text,
    seconds_of,
)
from app.settings.model import load
from app.worker.destination.background import in_its_own_thread
from app.worker.pipeline.gather.parked_event import is_of_rows, key_of
from app.worker.pipeline.hidden_statement import hidden_table
from connectors.errors import (
    HistoryTooShort,
    NotApplied,
    NotQuarantined,
    PositionUnknown,
    UsageError,
)
from connectors.kafka.reading import StoredRecord, read_each, read_to_end
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Session, Table, TableName
from connectors.mysql.schema.baseline import read_baseline, server_of
from connectors.mysql.server.facts import ServerFacts
from tables.state.journal.state import DestinationState
from tables.state.quarantine import AGAIN, GIVE_UP, Entry, Outcome, Resolution, note_of
from wire.text import printed, utc
from wire.topics import quarantine_topic


async def list_quarantined(journal: Journal) -> list[tuple[Entry, int]]:
    """Return the quarantined tables by name, each with its number of waiting events, then the tables given up.

    Raise StateUnknown if the destination has never run.
    """
    quarantine = (await journal.state(whole_history=False)).quarantine
    entries = quarantine.quarantined
    waiting = await _waiting_counts(journal, entries) if entries else {}
    return [
        *((entry, waiting[name]) for name, entry in sorted(entries.items())),
        *((entry, 0) for _, entry in sorted(quarantine.given_up.items())),
    ]


async def _waiting_counts(
    journal: Journal, entries: Mapping[TableName, Entry]
) -> Mapping[TableName, int]:
    keys = {key_of(name): name for name in entries}
    found: Counter[TableName] = Counter()

    def count(record: StoredRecord) -> None:
        name = keys.get(record.key)
        if name is not None and record.offset >= entries[name].offset:
            found[name] += 1

    topic = quarantine_topic(journal.settings.prefix, journal.plan.name)
    start = min(entry.offset for entry in entries.values())
    await read_each(journal.options, topic, 0, start=start, take=count)
    return found


def configure_quarantine(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    arguments.add_destination(parser)
    arguments.add_format(parser)


def run_quarantine(options: argparse.Namespace) -> int:
    """List the tables; return 1 if one is quarantined, for scripts."""
    found = run_operation(list_quarantined(Journal.of(load(), options.destination)))
    if options.format == "json":
        entries = [_entry_value(entry, waiting) for entry, waiting in found]
        sys.stdout.write(json.dumps(entries) + "\n")
    else:
        print_answer("text", None, _list_lines(options.destination, found))
    return 1 if any(entry.is_quarantined for entry, _ in found) else 0


def _list_lines(destination: str, found: Sequence[tuple[Entry, int]]) -> list[str]:
    quarantined = [(entry, waiting) for entry, waiting in found if entry.is_quarantined]
    lines = [line for one in quarantined for line in _entry_lines(*one)]
    if not lines:
        lines.append(f"no table of {destination} is quarantined")
    given_up = [entry for entry, _ in found if entry.is_given_up]
    return lines + [f"{'.'.join(entry.name)}: {_given_up_text(entry)}" for entry in given_up]


def _entry_lines(entry: Entry, waiting: int) -> list[str]:
    lines = [
        f"{'.'.join(entry.name)}: {waiting} event(s) have waited since {entry.since}",
        f"  why: {entry.why}",
    ]
    if entry.reason:
        lines.append(f"  the last resolution was refused: {entry.reason}")
    return [*lines, f"  {entry.action}"]


def _given_up_text(entry: Entry) -> str:
    """Return who gave a table up, and the events lost."""
    author = f" by {entry.given.by}, {utc(entry.given.ts_ms)}" if entry.given else ""
    return f"given up{author}; {entry.lost} event(s) are lost, and later ones are dropped"


def _entry_value(entry: Entry, waiting: int) -> dict[str, object]:
    return {
        "database": entry.name[0],
        "table": entry.name[1],
        "since": str(entry.since),
        "why": entry.why,
        "action": entry.action,
        "state": entry.outcome.value,
        "refused": entry.reason or None,
        "waiting": waiting,
        "given_up": given_value(entry.given),
        "lost": entry.lost,
    }


class DefinitionSource(StrEnum):
    """What gives the definition; the values are the names in the journal."""

    SERVER = "server"
    """The server's present definition."""
    BINLOG = "binlog"
    """The binlog itself, which has the definition with each row."""
    QUARANTINE = AGAIN
    """The definition that the table had when quarantined, if the cause was not in its rows and is gone."""
    CREATE = "definition"
    """A CREATE TABLE."""
    ALTER = "statement"
    """An ALTER TABLE, applied to the history's last definition before the quarantine."""
    NOTHING = GIVE_UP
    """No definition: the quarantined events are lost, and later events of the table are dropped."""


async def resolve(
    journal: Journal,
    name: TableName,
    source: DefinitionSource,
    report: ReportUnreachable,
    *,
    sql: str = "",
    by: str,
    wait: float | None,
) -> tuple[Resolution, Answer[Entry] | None]:
    """Request a definition for a table.

    Return the written resolution, and the table's entry after it, or None in place of the entry without
    waiting.

    ``sql`` is the statement, if one gives the definition. ``wait`` is the seconds for a worker to try the
    definition; with None, do not wait. Raise NotQuarantined if there is nothing to resolve or to give up,
    UsageError or DdlUnresolved if there is no such definition, NotApplied if no worker tried it.
    """
    state = await journal.state()
    entry = state.quarantine.entries.get(name)
    gives_up = source is DefinitionSource.NOTHING
    if entry is None or not (entry.is_quarantined or (entry.is_given_up and not gives_up)):
        raise NotQuarantined(table=".".join(name), destination=journal.plan.name)
    table = await _definition(journal, state, entry, source, sql, report=report)
    if table is not None:
        table = hidden_table(name, table, journal.plan.rules.routes)
    resolution = Resolution(
        destination=journal.plan.name,
        name=name,
        id=uuid.uuid4().hex[:12],
        table=table,
        by=by,
        ts_ms=time.time_ns() // 1_000_000,
        source=source.value,
    )

    def tried(state: DestinationState) -> Entry | None:
        entry = state.quarantine.entries.get(name)
        if entry is None:
            return None
        if entry.resolution != resolution.id:
            # It was released meanwhile, by a new version of the mapping or a statement: nothing tries this one.
            return None if entry.is_quarantined or entry.is_given_up else entry
        return None if entry.outcome is Outcome.RELEASING else entry

    try:
        found = await answer_to(
            journal, [note_of(resolution)], tried, what="schema resolve", wait=wait
        )
    except NotApplied:
        if not await _lacks_row(journal, resolution):
            raise
        raise NotApplied(
            f"schema resolve was recorded, but no row of it waits yet after {wait:g} s; the binlog "
            "gives the definition with a row, so the worker applies it at the table's next row",
            destination=journal.plan.name,
            table=".".join(name),
        ) from None
    return resolution, found


async def _definition(
    journal: Journal,
    state: DestinationState,
    entry: Entry,
    source: DefinitionSource,
    sql: str,
    *,
    report: ReportUnreachable,
) -> Table | None:
    if source is DefinitionSource.QUARANTINE and not entry.is_by_rule:
        raise UsageError(
            f"the rows of {'.'.join(entry.name)} are why it waits: give its definition"
        )
    if source is DefinitionSource.SERVER:
        server = await reachable_source(journal, state, report)
        return await in_its_own_thread(partial(_server_definition, entry.name, server))
    if source in (DefinitionSource.CREATE, DefinitionSource.ALTER):
        before = _definition_before(state, entry) if source is DefinitionSource.ALTER else None
        server = await reachable_source(journal, state, report)
        return _table_after(state, entry.name, before, sql, server.facts)
    return None


def _definition_before(state: DestinationState, entry: Entry) -> Table:
    """Return the history's definition before the table was quarantined."""
    history = state.history()
    try:
        before = history.at(entry.since).find(*entry.name) if history is not None else None
    except (HistoryTooShort, PositionUnknown):
        before = None
    if before is None:
        raise UsageError(
            f"the history has no definition of {'.'.join(entry.name)} before it was quarantined; "
            "give one with --definition"
        )
    return before


def _server_definition(name: TableName, server: ReachableSource) -> Table:
    table = read_baseline(server.address, server.facts).tables.get(name)
    if table is None:
        raise UsageError(
            f"the server has no table {'.'.join(name)}, or the account has no privilege on it"
        )
    return table


def _table_after(
    state: DestinationState, name: TableName, before: Table | None, sql: str, facts: ServerFacts
) -> Table:
    """Return the table after a statement; raise DdlUnresolved if the statement is not understood."""
    history, catalog = state.history(), Catalog(server_of(facts))
    for database, value in (history.now().databases() if history is not None else {}).items():
        catalog.put_database(database, value)
    if before is not None:
        catalog.put(name, before)
    catalog.apply(sql.strip(), Session(database=name[0]))
    table = catalog.get(name)
    if table is None:
        raise UsageError(f"the statement does not create {'.'.join(name)}")
    return table


async def _lacks_row(journal: Journal, resolution: Resolution) -> bool:
    """Return whether the binlog should give the definition, but no waiting event of the table has rows."""
    if resolution.table is not None or resolution.gives_up or resolution.keeps_definition:
        return False
    entry = (await journal.latest_state()).quarantine.entries[resolution.name]
    topic, key = quarantine_topic(journal.settings.prefix, journal.plan.name), key_of(entry.name)
    records = await read_to_end(journal.options, topic, 0, start=entry.offset)
    return not any(one.key == key and is_of_rows(one.headers) for one in records)


def configure_resolve(parser: argparse.ArgumentParser) -> None:
    """Add a table, and the source of its definition."""
    parser.epilog = (
        "The definition is that of the first waiting row; waiting statements after it take effect at their "
        "positions. The worker tries the definition by itself; `schema quarantine` also shows the outcome."
    )
    arguments.add_destination(parser)
    arguments.add_table(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--server", action="store_true", help="the server's present definition")
    source.add_argument(
        "--binlog", action="store_true",
        help="the definition in the binlog with each row; requires binlog_row_metadata=FULL",
    )  # fmt: skip
    source.add_argument(
        "--again", action="store_true",
        help="the definition that the table had then, where the cause was not in its rows, and is gone: its "
        "topic, the schema registry, a rule of the mapping",
    )  # fmt: skip
    source.add_argument(
        "--definition", type=Path, metavar="FILE.sql", help="a CREATE TABLE statement"
    )
    source.add_argument(
        "--statement", metavar="SQL",
        help="an ALTER TABLE, applied to the definition in the history before the quarantine",
    )  # fmt: skip
    source.add_argument(
        "--give-up", action="store_true",
        help="drop the waiting events, and later ones until the table is recreated or resolved",
    )  # fmt: skip
    parser.add_argument(
        "--yes-lose-rows", action="store_true", help="with --give-up: confirm the loss"
    )
    arguments.add_format(parser)
    add_waiting(parser)


def run_resolve(options: argparse.Namespace) -> int:
    """Request the resolution; return 0 once it is applied, or without waiting.

    Return 1 if it was refused, 2 if rows would be lost without confirmation. Raise NotApplied if no worker
    tried it in time.
    """
    name = ".".join(options.table)
    if options.give_up and not options.yes_lose_rows:
        sys.stderr.write(
            f"The waiting events of {printed(name)} and later ones would be lost to subscribers. "
            "To confirm, add --yes-lose-rows.\n"
        )
        return 2
    settings = run_operation(with_mapping_in_force(load(), options.destination))
    journal = Journal.of(settings, options.destination)
    source, sql = _given_definition(options)
    resolution, tried = run_operation(
        resolve(
            journal,
            options.table,
            source,
            report_unreachable,
            sql=sql,
            by=operator(),
            wait=seconds_of(options),
        )
    )
    code, text = (0, UNCONFIRMED) if tried is None else _outcome(tried)
    if options.format == "json":
        value = {"table": name, "resolution": resolution.id, "message": text}
        sys.stdout.write(json.dumps(value) + "\n")
    else:
        print_answer("text", None, [f"{name}: {text}"])
    return code


def _given_definition(options: argparse.Namespace) -> tuple[DefinitionSource, str]:
    """Return the source of the definition by the options, and its statement."""
    if options.give_up:
        return DefinitionSource.NOTHING, ""
    if options.server:
        return DefinitionSource.SERVER, ""
    if options.binlog:
        return DefinitionSource.BINLOG, ""
    if options.again:
        return DefinitionSource.QUARANTINE, ""
    if options.statement:
        return DefinitionSource.ALTER, options.statement
    try:
        return DefinitionSource.CREATE, options.definition.read_text("utf-8")
    except OSError as fault:
        raise UsageError(f"{options.definition}: {fault.strerror}") from None


def _outcome(tried: Answer[Entry]) -> tuple[int, str]:
    entry = tried.value
    if entry.is_given_up:
        return 0, (
            f"is given up; {entry.lost} waiting event(s) are lost, and later ones are dropped until the table "
            "is recreated or resolved"
        )
    if entry.is_quarantined:
        return 1, f"refused, it stays quarantined: {entry.reason}"
    return (
        0,
        f"is released; all waiting events are published{done_text(tried.worker, tried.seconds)}",
    )
