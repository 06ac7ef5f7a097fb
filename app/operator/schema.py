"""`schema`: definitions at any position of the binlog, the steps that made them, a comparison with the server.

Invariant: the schema history is read from the journal's committed records, and nothing is written; a running
worker is not affected. The central store is a copy, and is read only on request. Every step that touched a
table is listed, including steps whose effect is not known and definitions given by operators; only filters
exclude a step. The history is compared with the server at one position, the position of the server's answer. If
the worker does not reach this position in time, the history's end is compared instead, and the result reports
this.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app.operator import arguments
from app.operator.arguments import GivenPosition
from app.operator.journal_access import Journal, check_destination
from app.operator.source_connection import ReportUnreachable, reachable_source
from app.operator.terminal import (
    aligned_table,
    print_answer,
    report_unreachable,
    run_operation,
    shortened,
)
from app.settings.model import Settings, load
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.recovery import whole_state
from app.worker.wiring import central_store, kafka_client, topic_plans
from connectors.errors import HistoryTooShort, UsageError
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import Index, Table, TableChange, TableName
from connectors.mysql.ddl.show_create import create_table
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.baseline import Baseline, read_baseline
from connectors.mysql.schema_store import MetaStore
from tables.history.differences import Deviation, Difference, deviations, differences, key_text
from tables.history.history import SchemaHistory
from tables.history.position import AtTime, HistoryPosition, PositionQuery, reached
from tables.history.record import Dropped, Given, Known, SchemaRecord, TableState, Unresolved
from tables.history.schema_store_rows import history_of
from tables.history.view import SchemaView
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState, JournalPartition
from tables.state.quarantine import Entry, Outcome
from wire.text import utc

BEGIN = "Run a worker with this destination; its first run begins the history."


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationHistory:
    """The history, and its destination's position."""

    history: SchemaHistory
    cursor: Cursor
    quarantine: Mapping[TableName, Entry] = field(default_factory=dict)
    """Tables that are or were quarantined; empty for the central store, which does not record them."""

    @classmethod
    def of(cls, state: DestinationState) -> DestinationHistory:
        """Return the history in a destination's state; raise HistoryTooShort if none was begun."""
        history = state.history()
        if history is None or state.cursor is None:
            raise HistoryTooShort(
                "the destination has no schema history yet",
                destination=state.destination,
                remedy=BEGIN,
            )
        return cls(history=history, cursor=state.cursor, quarantine=state.quarantine.entries)

    def key(self, name: TableName) -> TableName:
        """A table's name as the server compares it."""
        server = self.history.checkpoints[-1].server
        return (name[0].lower(), name[1].lower()) if server.lower_case_table_names else name

    def query(self, position: GivenPosition, server: str | None = None) -> PositionQuery:
        """Return a given position as a query for this history."""
        offset = self.cursor.offset
        return position.history_query(server or offset.server_uuid, offset.coordinates)

    def at(self, position: GivenPosition | None, server: str | None = None) -> SchemaView:
        """Return all schemas as of a position, or now; raise HistoryTooShort or PositionUnknown."""
        if position is None:
            return self.history.now()
        return self.history.at(self.query(position, server))

    def quarantined(self, name: TableName, position: GivenPosition | None = None) -> Entry | None:
        """Return the entry of a table that was quarantined before a position and is not released."""
        for other, entry in self.quarantine.items():
            if self.key(other) == self.key(name) and entry.outcome is not Outcome.RELEASED:
                is_before = (
                    position is None or reached(entry.since, self.query(position)) is not False
                )
                return entry if is_before else None
        return None


async def read_journal_history(settings: Settings, destination: str) -> DestinationHistory:
    """Return the journal's history; raise HistoryTooShort if none was begun."""
    check_destination(settings, destination)
    plan, options = topic_plans(settings).journal(), kafka_client(settings).options()
    if not await Topics(options).has(plan):
        raise HistoryTooShort("the journal topic does not exist", topic=plan.name, remedy=BEGIN)
    journal = JournalPartition.of(destination, plan, options)
    return DestinationHistory.of(await whole_state(journal))


async def read_store_history(store: MetaStore, destination: str) -> DestinationHistory:
    """Return the central store's history; raise HistoryTooShort if it has none."""
    history = history_of(await in_its_own_thread(partial(store.read, destination)))
    if history is None:
        remedy = "A worker writes it to the store once it leads the destination; check the destination's name."
        raise HistoryTooShort(
            "the central store has no schema history of the destination",
            destination=destination,
            remedy=remedy,
        )
    newest = history.checkpoints[-1]
    last = history.records[-1].position if history.count > newest.count else newest.position
    cursor = Cursor(
        destination=destination,
        installation="",
        epoch=0,
        seq=0,
        versions=0,
        offset=SourceOffset(server_uuid=last.server_uuid, coordinates=last.end),
        history=history.count,
    )
    return DestinationHistory(history=history, cursor=cursor)


ReadByName = Callable[[str], Coroutine[Any, Any, DestinationHistory]]
"""Returns the history of a destination by its name."""


def _read_history(options: argparse.Namespace, read_by_name: ReadByName) -> DestinationHistory:
    """Return the history of a command's destination, read by ``read_by_name`` or from the central store."""
    read = _from_store if options.from_store else read_by_name
    return run_operation(read(options.destination))


async def _from_store(destination: str) -> DestinationHistory:
    store = central_store(load())
    if store is None:
        raise UsageError(
            "--from-store needs schema_history.store: mysql, and mysql.host and mysql.user"
        )
    return await read_store_history(store, destination)


async def from_journal(destination: str) -> DestinationHistory:
    """Read the settings, then the journal."""
    return await read_journal_history(load(), destination)


def position_value(position: HistoryPosition) -> dict[str, Any]:
    """Return a position as JSON."""
    return {
        "server_uuid": position.server_uuid,
        "file": position.start.file,
        "pos": position.start.pos,
        "gtid": position.gtid,
        "gtid_set": None if position.gtid_set is None else str(position.gtid_set),
        "time": utc(position.ts_ms),
        "server_id": position.server_id,
        "thread": position.thread,
        "user": position.user,
    }


def position_text(position: HistoryPosition) -> str:
    """Return a position as text: coordinates and GTID."""
    return f"{position.start}  {position.gtid}" if position.gtid else str(position.start)


def record_value(record: SchemaRecord) -> dict[str, Any]:
    """Return a step of the history as JSON."""
    return {
        "number": record.number,
        "kind": record.kind,
        "type": record.type,
        "outcome": record.outcome,
        "reason": record.reason,
        "tables": [".".join(name) for name in record.concerned],
        "unchanged": [".".join(name) for name in record.unchanged],
        "databases": list(record.schemas),
        "default_database": record.use_schema,
        "sql_mode": sorted(record.session.sql_mode),
        "statement": record.statement,
        "given": given_value(record.given),
        **position_value(record.position),
    }


def given_value(given: Given | None) -> dict[str, Any] | None:
    """Return the author of a given definition as JSON."""
    if given is None:
        return None
    return {"by": given.by, "time": utc(given.ts_ms), "source": given.source or None}


def quarantine_value(entry: Entry | None) -> dict[str, Any] | None:
    """Return a quarantined or given-up table's entry as JSON."""
    if entry is None:
        return None
    return {
        "state": "given up" if entry.is_given_up else "quarantined",
        "since": position_value(entry.since),
        "why": entry.why,
        "refused": entry.reason or None,
        "given_up": given_value(entry.given),
    }


def quarantine_lines(entry: Entry | None) -> list[str]:
    """Return a quarantined or given-up table's entry as text; nothing for another table."""
    if entry is None:
        return []
    since = f"{utc(entry.since.ts_ms)}  {position_text(entry.since)}"
    fate = (
        "quarantined: its rows wait" if entry.is_quarantined else "given up: its rows are dropped"
    )
    lines = [f"{fate}; it was read up to {since}", f"because {entry.why}"]
    if entry.given is not None:
        lines.append(f"given up by {entry.given.by}, {utc(entry.given.ts_ms)}")
    if entry.reason:
        lines.append(f"the last resolution was refused: {entry.reason}")
    return lines


def difference_value(difference: Difference) -> dict[str, Any]:
    """Return a difference as JSON."""
    return {
        "what": difference.what,
        "name": difference.name,
        "old": difference.old,
        "new": difference.new,
    }


def table_value(table: Table) -> dict[str, Any]:
    """Return a definition as JSON."""
    return {
        "columns": [
            {**column.to_json(), "definition": column.definition} for column in table.columns
        ],
        "primary_key": list(table.primary_key),
        "keys": [_key_value(index) for index in table.indexes if index.name != "PRIMARY"],
        "charset": table.charset,
        "collation": table.collation,
        "options": table.options,
    }


def _key_value(index: Index) -> dict[str, Any]:
    return {"name": index.name, "columns": list(index.columns), "unique": index.unique}


def table_lines(table: Table) -> list[str]:
    """Return a definition as text."""
    rows = [
        [
            column.name,
            column.type,
            "null" if column.nullable else "not null",
            column.collation or "",
            " ".join(filter(None, (column.definition, "INVISIBLE" if column.invisible else ""))),
        ]
        for column in table.columns
    ]
    lines = aligned_table(["column", "type", "null", "collation", "more"], rows)
    lines += [
        "",
        f"primary key  ({', '.join(table.primary_key)})" if table.primary_key else "no primary key",
    ]
    for index in table.indexes:
        if index.name != "PRIMARY":
            lines.append(f"key {index.name}  {key_text(index)}")
    lines.append(f"new columns take  {table.charset} {table.collation}")
    if table.options:
        lines.append(f"options  {table.options}")
    return lines


def configure_show(parser: argparse.ArgumentParser) -> None:
    """Add a table and a position."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_position(
        parser, "--at", "position of the definition; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run_show(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the definition; return the exit code."""
    found = _read_history(options, read_by_name)
    state = found.at(options.at, options.server).state(*options.table)
    # The rows of a quarantined table may contradict its definition.
    entry = found.quarantined(options.table, options.at)
    value = {**_state_value(options.table, state), "quarantine": quarantine_value(entry)}
    print_answer(
        options.format, value, [*_state_lines(options.table, state), *quarantine_lines(entry)]
    )
    return 0 if isinstance(state, Known) else 1


def _state_value(name: TableName, state: TableState | None) -> dict[str, Any]:
    return {
        "table": ".".join(name),
        "state": _state_text(state),
        "since": None if state is None else position_value(state.since),
        "reason": state.reason if isinstance(state, Unresolved) else None,
        "definition": table_value(state.table) if isinstance(state, Known) else None,
    }


def _state_lines(name: TableName, state: TableState | None) -> Iterator[str]:
    title = ".".join(name)
    if state is None:
        yield f"{title}: the history has no such table up to that position"
        return
    since = f"{utc(state.since.ts_ms)}  {position_text(state.since)}"
    match state:
        case Known():
            yield f"{title}  since {since}"
            yield ""
            yield from table_lines(state.table)
        case Dropped():
            yield f"{title}: dropped {since}"
        case Unresolved():
            yield f"{title}: not known since {since}"
            yield f"because {state.reason}"


Step = tuple[SchemaRecord, list[Difference]]
"""A step that concerns a table, and its changes."""


def _steps(found: DestinationHistory, name: TableName) -> Iterator[Step]:
    key = found.key(name)
    for record in found.history.records:
        if not any(found.key(one) == key for one in record.concerned):
            continue
        changed: list[Difference] = []
        for change in record.changes:
            if isinstance(change, TableChange) and found.key(change.name) == key:
                changed += _renames(change)
                changed += [] if change.renamed_to else differences(change.old, change.new)
        yield record, changed


def _renames(change: TableChange) -> Iterator[Difference]:
    name = ".".join(change.name)
    if change.renamed_to is not None:
        yield Difference(what="renamed", old=name, new=".".join(change.renamed_to))
    if change.renamed_from is not None:
        yield Difference(what="renamed", old=".".join(change.renamed_from), new=name)


def _summaries(found: DestinationHistory) -> Iterator[dict[str, Any]]:
    """Yield all tables that the history knows, by name."""
    view = found.history.now()
    steps = Counter(
        found.key(name) for record in found.history.records for name in record.concerned
    )
    for name, _ in sorted(view.versions(), key=lambda pair: pair[0]):
        state = view.state(*name)
        assert state is not None
        entry = found.quarantined(name)
        yield {
            "table": ".".join(name),
            "state": _state_text(state),
            "steps": steps[found.key(name)],
            "since": utc(state.since.ts_ms),
            "quarantine": entry and ("given up" if entry.is_given_up else "quarantined"),
        }


def configure_history(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and optionally a table."""
    arguments.add_destination(parser)
    arguments.add_table(parser, optional=True)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run_history(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the versions, or all tables; return the exit code."""
    found = _read_history(options, read_by_name)
    return _print_all(options, found) if options.table is None else _print_one(options, found)


def _print_all(options: argparse.Namespace, found: DestinationHistory) -> int:
    rows = list(_summaries(found))
    head = ["table", "state", "steps", "since", "quarantine"]
    lines = aligned_table(head, [[_cell(row[key]) for key in head] for row in rows])
    print_answer(options.format, {"destination": options.destination, "tables": rows}, lines)
    return 0


def _print_one(options: argparse.Namespace, found: DestinationHistory) -> int:
    entry, steps = found.quarantined(options.table), list(_steps(found, options.table))
    value = {
        "table": ".".join(options.table),
        "quarantine": quarantine_value(entry),
        "steps": [_step_value(step) for step in steps],
    }
    lines = list(_history_lines(found.history, options.table, steps))
    lines += ["", *quarantine_lines(entry)] if entry is not None else []
    print_answer(options.format, value, lines)
    return 0 if found.history.state(*options.table) is not None else 1


def _step_value(step: Step) -> dict[str, Any]:
    record, changed = step
    return {**record_value(record), "differences": [difference_value(one) for one in changed]}


def _history_lines(history: SchemaHistory, name: TableName, steps: Sequence[Step]) -> Iterator[str]:
    begin = history.checkpoints[0].position
    state = history.at(begin).state(*name)
    what = "known" if isinstance(state, Known) else "not known" if state else "does not exist"
    title = ".".join(name)
    yield f"{title}  {what} at the beginning of the history: {utc(begin.ts_ms)}  {position_text(begin)}"
    for step in steps:
        yield ""
        yield from _step_lines(step)


def _step_lines(step: Step) -> Iterator[str]:
    record, changed = step
    what = record_kind(record)
    yield f"{record.number}  {utc(record.position.ts_ms)}  {position_text(record.position)}  {what}"
    if record.given is not None:
        yield f"    given by {record.given.by}, {utc(record.given.ts_ms)}"
    if record.reason is not None:
        yield f"    not resolved: {record.reason}"
    yield from (f"    {one}" for one in changed)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def configure_diff(parser: argparse.ArgumentParser) -> None:
    """Add a table and two positions."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_position(parser, "--from", "position of the first definition", required=True)
    arguments.add_position(
        parser, "--to", "position of the second; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run_diff(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the differences; return the exit code."""
    positions = (vars(options)["from"], options.to)
    found = _read_history(options, read_by_name)
    states = [found.at(position, options.server).state(*options.table) for position in positions]
    old, new = states
    changed = list(differences(*(one.table if isinstance(one, Known) else None for one in states)))
    value = {
        "table": ".".join(options.table),
        "from": _state_text(old),
        "to": _state_text(new),
        "differences": [difference_value(one) for one in changed],
    }
    unknown = [one for one in states if isinstance(one, Unresolved)]
    lines = [f"not known: {one.reason}" for one in unknown]
    lines += [] if unknown else map(str, changed) if changed else ["no difference"]
    print_answer(options.format, value, lines)
    return 1 if unknown or old is new is None else 0


def _state_text(state: TableState | None) -> str:
    return "unknown" if state is None else type(state).__name__.lower()


def configure_rebuild(parser: argparse.ArgumentParser) -> None:
    """Add a position, and optionally a database."""
    arguments.add_destination(parser)
    arguments.add_position(
        parser, "--at", "position of the definitions; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument("--database", metavar="DB", help="only this database")
    arguments.add_format(parser)


def run_rebuild(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the statements; return the exit code."""
    database = options.database
    view = _read_history(options, read_by_name).at(options.at, options.server)
    texts = {
        name: text
        for name, text in view.snapshot(create_table).items()
        if database is None or name == database
    }
    is_whole = not any(name[0] in texts for name in view.unresolved())
    if options.format == "json":
        print_answer("json", {"databases": texts}, [])
    else:
        # The statements are to be run as they are, so nothing in a name may be escaped or treated as a line
        # end.
        sys.stdout.write("".join(f"{text.rstrip()}\n\n" for text in texts.values()))
    return 0 if is_whole and (texts or not database) else 1


async def read_source_tables(journal: Journal, report: ReportUnreachable) -> Baseline:
    """Return the tables of the source that is read, or of the first that answers."""
    source = await reachable_source(journal, await journal.latest_state(), report)
    return await in_its_own_thread(partial(read_baseline, source.address, source.facts))


_PAUSE = 1.0

ReadHistory = Callable[[], Awaitable[DestinationHistory]]
"""Reads the present history of one destination."""
AskServer = Callable[[], Awaitable[Baseline]]
"""Reads a server's tables as they are now."""
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerComparison:
    """The history, the server, and their differences."""

    history: DestinationHistory
    server: Baseline
    is_same_position: bool
    """Whether the history reaches the position of the server's answer; else the history's end was compared."""
    deviations: tuple[Deviation, ...]


async def compare_with_server(
    read: ReadHistory,
    ask: AskServer,
    *,
    wait: float,
    pause: Pause = asyncio.sleep,
) -> ServerComparison:
    """Compare the history with the server; wait up to ``wait`` seconds for the worker to catch up."""
    # The history is read first: without one, the server need not be asked.
    await read()
    server = await ask()
    found = await _history_at_server(read, server, wait, pause)
    is_there = _has_reached(found, server)
    view = found.history.at(server.at) if is_there else found.history.now()
    deviating = deviations(
        view, server.tables, server.databases, server=server.server, unseen=server.unseen
    )
    return ServerComparison(
        history=found, server=server, is_same_position=is_there, deviations=tuple(deviating)
    )


async def _history_at_server(
    read: ReadHistory,
    server: Baseline,
    seconds_left: float,
    pause: Pause,
) -> DestinationHistory:
    """Return the history once its worker has reached the server's position, or as it is on time-out."""
    while True:
        found = await read()
        if _has_reached(found, server) or seconds_left <= 0:
            return found
        await pause(_PAUSE)
        seconds_left -= _PAUSE


def _has_reached(found: DestinationHistory, server: Baseline) -> bool:
    return bool(reached(HistoryPosition.between(server.at, ts_ms=0), found.cursor.offset))


_WAIT = 10.0


def configure_check(parser: argparse.ArgumentParser) -> None:
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
    return read_source_tables(Journal.of(load(), destination), report_unreachable)


def run_check(
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
    print_answer(options.format, _comparison_value(found), _comparison_lines(found))
    return 1 if found.deviations else 0


def _comparison_value(found: ServerComparison) -> dict[str, Any]:
    server, read_to = found.server, found.history.cursor.offset
    return {
        "destination": found.history.cursor.destination,
        "server_at": _offset_value(str(server.at.coordinates), server.at.gtid_set),
        "history_at": _offset_value(str(read_to.coordinates), read_to.gtid_set),
        "same_place": found.is_same_position,
        "tables": len(server.tables),
        "differences": [
            {"table": one.table, **difference_value(one.difference)} for one in found.deviations
        ],
        "not_seen": {".".join(name): reason for name, reason in server.unseen.items()},
    }


def _offset_value(coordinates: str, gtid_set: object) -> dict[str, Any]:
    return {"coordinates": coordinates, "gtid_set": None if gtid_set is None else str(gtid_set)}


def _comparison_lines(found: ServerComparison) -> Iterator[str]:
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


def filtered_records(
    found: DestinationHistory,
    *,
    since: GivenPosition | None = None,
    until: GivenPosition | None = None,
    server: str | None = None,
    types: Sequence[str] = (),
    table: TableName | None = None,
    only_unresolved: bool = False,
) -> tuple[SchemaRecord, ...]:
    """Return the steps of the history, the oldest first; without a filter, all steps except baselines.

    ``server`` is the server of given files and offsets; None: the server that is read now. ``types`` are the
    first words of statements. ``only_unresolved`` selects only statements whose effect is not known.
    """
    first, last = (_mark(found, position, server) for position in (since, until))
    beginnings = tuple(words.upper() for words in types)
    key = None if table is None else found.key(table)
    return tuple(
        record
        for record in found.history.records
        if record.kind != "baseline"
        and (first is None or not _is_up_to(record, first))
        and (last is None or _is_up_to(record, last))
        and (not beginnings or record_kind(record).upper().startswith(beginnings))
        and (key is None or key in map(found.key, record.concerned))
        and (not only_unresolved or record.reason is not None)
    )


def record_kind(record: SchemaRecord) -> str:
    """Return a step's kind in a few words: a statement's type, or the origin of a definition."""
    if record.kind == "statement":
        return record.type
    source = record.given.source if record.given is not None else ""
    return f"{record.kind} ({source})" if source else record.kind


def _mark(
    found: DestinationHistory, position: GivenPosition | None, server: str | None
) -> AtTime | int | None:
    """Return a time, or the number of the last step as of a position."""
    if position is None:
        return None
    query = found.query(position, server)
    return query if isinstance(query, AtTime) else found.history.at(query).number


def _is_up_to(record: SchemaRecord, mark: AtTime | int) -> bool:
    if isinstance(mark, AtTime):
        return record.position.ts_ms <= mark.ts_ms
    return record.number <= mark


def configure_audit(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--type",
        metavar="WORDS",
        action="append",
        default=[],
        help="only statements that begin with these words, such as 'DROP' or 'ALTER TABLE'; may be repeated",
    )
    parser.add_argument(
        "--table",
        metavar="db.table",
        type=arguments.parse_table,
        help="only statements on this table",
    )
    arguments.add_position(parser, "--since", "only statements after this position")
    arguments.add_position(parser, "--until", "only statements up to this position")
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument(
        "--unresolved", action="store_true", help="only statements whose effect is not known"
    )
    arguments.add_format(parser)


def run_audit(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the list; return the exit code."""
    found = filtered_records(
        _read_history(options, read_by_name),
        since=options.since,
        until=options.until,
        server=options.server,
        types=options.type,
        table=options.table,
        only_unresolved=options.unresolved,
    )
    value = {
        "destination": options.destination,
        "statements": [record_value(record) for record in found],
    }
    head = ["when", "where", "server", "thread", "user", "outcome", "type", "tables", "statement"]
    print_answer(options.format, value, aligned_table(head, map(_statement_row, found)))
    return 0


def _statement_row(record: SchemaRecord) -> list[str]:
    position, given = record.position, record.given
    return [
        utc(given.ts_ms if given else position.ts_ms),
        position_text(position),
        str(position.server_id),
        str(position.thread),
        (given.by if given else position.user) or "-",
        record.outcome,
        record_kind(record).upper(),
        " ".join(".".join(name) for name in record.concerned) or "-",
        shortened(record.statement),
    ]
