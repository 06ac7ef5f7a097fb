"""A resolution of a quarantined table, in two steps: the table is looked up, and its definition
requested.

Invariant: only the journal is changed here; the worker tries the definition on all quarantined
events, and reports whether it fits. Events that do not fit stay quarantined, and can be resolved
again.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from functools import partial

from app.operator.operations.journal_access import Journal
from app.operator.operations.request_outcome import not_tried_error
from app.operator.operations.source_connection import ReportUnreachable, reachable_source
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
from connectors.kafka.reading.partition_reader import read_to_end
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Session, Table, TableName
from connectors.mysql.schema.baseline import read_baseline, server_of
from tables.state.journal.state import DestinationState
from tables.state.quarantine import AGAIN, GIVE_UP, Entry, Outcome, Resolution, note_of
from wire.topics import quarantine_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOnServer:
    """The definition that the server has now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsInBinlog:
    """The definition that the binlog itself has with each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The definition that a CREATE TABLE makes."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """The history's last definition, after an ALTER TABLE."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """No definition: the quarantined events are lost, and later events of the table are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsQuarantined:
    """The definition that the quarantine has, as the cause was not in the table's rows, and is gone."""


Definition = AsOnServer | AsInBinlog | AsQuarantined | Created | Altered | GivenUp
_SOURCES: dict[type[Definition], str] = {
    AsOnServer: "server",
    AsInBinlog: "binlog",
    AsQuarantined: AGAIN,
    Created: "definition",
    Altered: "statement",
    GivenUp: GIVE_UP,
}
"""The names in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToResolve:
    """A quarantined table, and its destination's state in the journal."""

    journal: Journal
    state: DestinationState
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionOutcome:
    """A worker's result of a resolution."""

    entry: Entry
    worker: str | None
    """The destination's leader."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenResolution:
    """The written resolution, and its outcome; None if that was not waited for."""

    resolution: Resolution
    tried: ResolutionOutcome | None


async def find_waiting_table(
    journal: Journal, table: TableName, *, gives_up: bool
) -> TableToResolve:
    """Return the table; raise NotQuarantined if there is nothing to resolve, or to give up."""
    state = await journal.state()
    entry = state.quarantine.entries.get(table)
    if entry is None or not (entry.is_quarantined or (entry.is_given_up and not gives_up)):
        raise NotQuarantined(table=".".join(table), destination=journal.plan.name)
    return TableToResolve(journal=journal, state=state, entry=entry)


async def resolve(
    waiting: TableToResolve,
    definition: Definition,
    report: ReportUnreachable,
    *,
    by: str,
    wait: float | None,
) -> WrittenResolution:
    """Request a definition for a table; ``wait``: seconds for a worker to try it, None: do not.

    Raises UsageError or DdlUnresolved if there is no such definition, NotApplied if no worker tried
    it.
    """
    journal, entry = waiting.journal, waiting.entry
    table = await _table(waiting, definition, report)
    if table is not None:
        table = hidden_table(entry.name, table, journal.plan.rules.routes)
    resolution = Resolution(
        destination=journal.plan.name,
        name=entry.name,
        id=uuid.uuid4().hex[:12],
        table=table,
        by=by,
        ts_ms=time.time_ns() // 1_000_000,
        source=_SOURCES[type(definition)],
    )
    began = time.monotonic()
    await journal.write(note_of(resolution))
    tried = None if wait is None else await _wait_until_tried(journal, resolution, wait, began)
    return WrittenResolution(resolution=resolution, tried=tried)


async def _table(
    waiting: TableToResolve, definition: Definition, report: ReportUnreachable
) -> Table | None:
    match definition:
        case AsInBinlog() | GivenUp():
            return None
        case AsQuarantined():
            if not waiting.entry.is_by_rule:
                raise UsageError(
                    f"the rows of {'.'.join(waiting.entry.name)} are why it waits: give its definition"
                )
            return None
        case AsOnServer():
            return await _server_definition(waiting, report)
        case Created(sql=sql):
            return await _table_after(waiting, None, sql, report)
        case Altered(sql=sql):
            return await _table_after(waiting, _definition_before(waiting), sql, report)


def _definition_before(waiting: TableToResolve) -> Table:
    """Return the history's definition before the table was quarantined."""
    history, entry = waiting.state.history(), waiting.entry
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


async def _server_definition(waiting: TableToResolve, report: ReportUnreachable) -> Table:
    name = waiting.entry.name
    source = await reachable_source(waiting.journal, waiting.state, report)
    baseline = await in_its_own_thread(partial(read_baseline, source.address, source.facts))
    table = baseline.tables.get(name)
    if table is None:
        raise UsageError(
            f"the server has no table {'.'.join(name)}, or the account has no privilege on it"
        )
    return table


async def _table_after(
    waiting: TableToResolve, before: Table | None, sql: str, report: ReportUnreachable
) -> Table:
    """Return the table after a statement; DdlUnresolved names what is not understood."""
    name, history = waiting.entry.name, waiting.state.history()
    catalog = Catalog(
        server_of((await reachable_source(waiting.journal, waiting.state, report)).facts)
    )
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
    """Return whether the binlog is to give the definition, and no row waits that has one."""
    if resolution.table is not None or resolution.gives_up or resolution.keeps_definition:
        return False
    entry = (await journal.latest_state()).quarantine.entries[resolution.name]
    topic, key = quarantine_topic(journal.settings.prefix, journal.plan.name), key_of(entry.name)
    records = await read_to_end(journal.options, topic, 0, start=entry.offset)
    return not any(one.key == key and is_of_rows(one.headers) for one in records)


async def _wait_until_tried(
    journal: Journal, resolution: Resolution, seconds: float, began: float
) -> ResolutionOutcome:
    def is_tried(state: DestinationState) -> bool:
        entry = state.quarantine.entries[resolution.name]
        return entry.resolution == resolution.id and entry.outcome is not Outcome.RELEASING

    state = await journal.wait(is_tried, seconds)
    if state is None:
        if await _lacks_row(journal, resolution):
            raise NotApplied(
                f"schema resolve was recorded, but no row of it waits yet after {seconds:g} s; the binlog "
                "gives the definition with a row, so the worker applies it at the table's next row",
                destination=journal.plan.name,
                table=".".join(resolution.name),
            )
        raise await not_tried_error(journal, "schema resolve", seconds)
    worker = state.leader.worker if state.leader is not None else None
    entry = state.quarantine.entries[resolution.name]
    return ResolutionOutcome(entry=entry, worker=worker, seconds=time.monotonic() - began)
