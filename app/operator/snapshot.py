"""`snapshot`: requests to read existing rows, their progress, and the plan by which the sink itself reads rows.

Invariant: only the journal is changed, and only if every table allows the action; a running worker applies a
request while it publishes changes. The source of the progress figures is stated, and the server's estimates are
shown as estimates. A table is in a plan only if the rows of a SELECT, apart from renamed or omitted columns,
are the rows that the topic would have.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app.operator import arguments
from app.operator.destination import WorkerAt, read_statuses
from app.operator.journal_access import Journal
from app.operator.mapping import with_mapping_in_force
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.operator.terminal import (
    aligned_table,
    operator,
    print_answer,
    report_unreachable,
    run_operation,
)
from app.operator.validation.definitions import Definitions, definitions_now, wanted_tables
from app.operator.validation.errors import NotComparable
from app.operator.worker_answer import UNCONFIRMED, Answer, add_waiting, answer_to, seconds_of
from app.settings.model import load
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.initial_snapshots import unsupported
from app.worker.pipeline.gather.captured_tables import CapturedTable
from connectors.errors import SnapshotUnsupported, TableUnreadable, UsageError
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.schema.unseen_tables import unseen_tables
from connectors.mysql.select.table_checks import check_readable, empty_tables
from connectors.mysql.server.connection import SourceAddress, connected
from tables.journal_format import Entry as Note
from tables.rules.mapping.rules import DEBEZIUM
from tables.state.journal.state import DestinationState
from tables.state.snapshots.request import (
    SNAPSHOT_REQUEST_PART,
    SnapshotAction,
    SnapshotRequest,
    note_of,
    pending,
    unapplied_starts,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from wire.text import printed

AppliedSnapshots = Answer[tuple[TableSnapshot, ...]]
"""The states of tables' snapshots after requests."""


async def request_snapshots(
    journal: Journal,
    action: SnapshotAction,
    tables: Sequence[TableName],
    report: ReportUnreachable,
    *,
    where: str | None = None,
    replaces: bool = False,
    removes: tuple[str, ...] = (),
    by: str,
    wait: float | None,
) -> tuple[tuple[SnapshotRequest, ...], AppliedSnapshots | None]:
    """Request an action on the snapshots of tables; without tables, on all tables that allow the action.

    Return the written requests, and the states after them, or None in place of the states without waiting.

    ``wait`` is the seconds for a worker to apply the action; with None, do not wait. For a start, ``where`` is
    an SQL condition on the rows to read, and ``replaces`` is whether the rows that subscribers have are
    replaced. ``removes`` are keys of records, which are deleted unless a row that ``where`` selects has the
    key; ``where`` must cover all of these keys.

    Raise UsageError if a table does not allow the action, SnapshotUnsupported if rows cannot be read exactly,
    NotApplied if no worker applied the action in time.
    """
    state = await journal.state()
    if action is SnapshotAction.START:
        source = await reachable_source(journal, state, report)
        unseen = await in_its_own_thread(partial(_unseen, source, state))
        names = _tables_to_start(journal, state, tables, unseen)
        if where is not None:
            _check_keys(state, names)
        if replaces:
            _check_replaceable(journal, names)
        if removes:
            _check_removable(journal, names)
        await _check_readable(source, state, names, where)
    else:
        names = _tables_to_change(state, action, tables)
    name, now_ms = uuid.uuid4().hex[:12], time.time_ns() // 1_000_000
    requests = tuple(
        SnapshotRequest(
            destination=journal.plan.name,
            database=database,
            table=table,
            id=name,
            action=action,
            where=where,
            replaces=replaces,
            removes=removes,
            by=by,
            ts_ms=now_ms,
        )
        for database, table in names
    )

    before = dict(state.snapshots.all)

    def applied(later: DestinationState) -> tuple[TableSnapshot, ...] | None:
        known = before | later.snapshots.all
        if pending(requests, known):
            return None
        return tuple(known[one.name] for one in requests)

    notes = [note_of(one) for one in requests]
    found = await answer_to(journal, notes, applied, what=f"snapshot {action.value}", wait=wait)
    return requests, found


def _known(state: DestinationState) -> Collection[TableName]:
    history = state.history()
    return history.now().tables().keys() if history is not None else ()


def _unseen(source: ReachableSource, state: DestinationState) -> Collection[TableName]:
    """The tables that the history lacks because the account cannot see them or all their columns; they wait."""
    if state.history() is None:
        return ()
    known, waiting = _known(state), state.snapshots.all
    return unseen_tables(source.address, source.facts, known, waiting).keys()


def _tables_to_start(
    journal: Journal,
    state: DestinationState,
    given: Sequence[TableName],
    unseen: Collection[TableName],
) -> list[TableName]:
    """The given tables, or all captured tables; raise UsageError for a table that cannot be started."""
    known, routes = {*_known(state), *unseen}, journal.plan.rules.routes
    captured = {name for name in known if routes.captures(*name)}
    if not given and not captured:
        raise UsageError("the destination captures no table that exists")
    for name in given:
        if name not in captured:
            why = "does not exist" if name not in known else "is not captured by this destination"
            raise UsageError(f"table {'.'.join(name)} {why}")
    names = sorted(set(given) or captured)
    found = [one for name in names if (one := state.snapshots.all.get(name)) is not None]
    open_ = {one.name for one in found if one.is_pending} | _started(state)
    if read := [".".join(name) for name in names if name in open_]:
        raise UsageError(
            f"is being read already: {', '.join(read)}; end that first with `snapshot stop`"
        )
    if paused := [".".join(one.name) for one in found if one.is_open]:
        raise UsageError(
            f"its reading is paused: {', '.join(paused)}; continue it with `snapshot resume`, or end it with "
            "`snapshot stop`, first"
        )
    return names


def _started(state: DestinationState) -> set[TableName]:
    """The tables whose start no worker has applied yet."""
    return unapplied_starts(state.parts[SNAPSHOT_REQUEST_PART].all.values(), state.snapshots.all)


def _check_keys(state: DestinationState, names: Collection[TableName]) -> None:
    """Raise UsageError for a table without a primary key: a condition cannot select some of its rows."""
    history = state.history()
    for name in names:
        table = history.now().find(*name) if history is not None else None
        if table is not None and not table.primary_key:
            raise UsageError(f"table {'.'.join(name)} has no primary key: leave out the condition")


def _check_replaceable(journal: Journal, names: Collection[TableName]) -> None:
    """Raise UsageError for a table for which nothing is published that removes all rows at the subscribers."""
    for name in names:
        route = journal.plan.rules.routes.of(name)
        if route is None or not route.publishes_truncates:
            raise UsageError(
                f"cannot replace the rows of {'.'.join(name)}: nothing is published that removes all of them "
                "(truncates: omit, or operations without delete)"
            )


def _check_removable(journal: Journal, names: Collection[TableName]) -> None:
    """Raise UsageError for a table of which some operations are not published."""
    for name in names:
        route = journal.plan.rules.routes.of(name)
        if route is None or not route.publishes_all:
            raise UsageError(
                f"cannot remove rows of {'.'.join(name)}: its mapping does not publish all changes"
            )


def _tables_to_change(
    state: DestinationState, action: SnapshotAction, given: Sequence[TableName]
) -> list[TableName]:
    """The tables whose snapshot can be paused, resumed or stopped; raise UsageError if one cannot."""
    fits = {
        SnapshotAction.PAUSE: (SnapshotState.WAITING, SnapshotState.READING),
        SnapshotAction.RESUME: (SnapshotState.PAUSED,),
        SnapshotAction.STOP: (SnapshotState.WAITING, SnapshotState.READING, SnapshotState.PAUSED),
    }[action]
    snapshots = state.snapshots.all
    found = {name for name, one in snapshots.items() if one.state in fits}
    if action is SnapshotAction.STOP:
        found |= _started(state)
    for name in given:
        if name not in found:
            now = snapshots[name].state if name in snapshots else None
            why = f"its snapshot is {now.value}" if now is not None else "it has no snapshot"
            raise UsageError(f"cannot {action.value} table {'.'.join(name)}: {why}")
    names = sorted(set(given) or found)
    if not names:
        raise UsageError(f"there is no snapshot to {action.value}")
    return names


async def _check_readable(
    source: ReachableSource,
    state: DestinationState,
    names: Collection[TableName],
    where: str | None,
) -> None:
    """Check that the source returns rows of the tables by the condition."""
    has_history = state.history() is not None
    refusal = unsupported(source.facts, source.address, has_history=has_history)
    if refusal is not None:
        raise refusal
    await in_its_own_thread(partial(check_readable, source.address, names, where))


def _configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, its tables, and how long to wait."""
    arguments.add_destination(parser)
    arguments.add_tables(parser)
    add_waiting(parser)
    arguments.add_format(parser)


def _request(
    options: argparse.Namespace,
    action: SnapshotAction,
    *,
    where: str | None = None,
    replaces: bool = False,
) -> int:
    """Request an action; return 0 once it is applied, 1 if it failed for a table. Raise NotApplied."""
    settings = run_operation(with_mapping_in_force(load(), options.destination))
    requests, applied = run_operation(
        request_snapshots(
            Journal.of(settings, options.destination),
            action,
            options.tables,
            report_unreachable,
            where=where,
            replaces=replaces,
            by=operator(),
            wait=seconds_of(options),
        )
    )
    tables = applied.value if applied is not None else ()
    known = {one.name: one.to_json() for one in tables}
    value = {
        "request": requests[0].id,
        "tables": {".".join(one.name): known.get(one.name) for one in requests},
    }
    lines = [_snapshot_line(one) for one in tables]
    if applied is None:
        lines = [f"{'.'.join(one.name)}: {action.value} {UNCONFIRMED}" for one in requests]
    print_answer(options.format, value, lines)
    has_failed = any(one.state is SnapshotState.FAILED for one in tables)
    return 1 if has_failed else 0


def _snapshot_line(one: TableSnapshot) -> str:
    text = f"{'.'.join(one.name)}: {one.state.value}, {one.rows} row(s) read"
    return text if one.error is None else f"{text}: {one.error}"


def configure_start(parser: argparse.ArgumentParser) -> None:
    """Add tables, and a condition on their rows."""
    parser.epilog = (
        "Rows come with op r, in the same topics as changes, and never after a newer image of themselves. Rows "
        "that subscribers have already come again. `snapshot status` shows the progress."
    )
    _configure(parser)
    parser.add_argument("--all", action="store_true", help="all captured tables")
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="a condition in SQL on the rows to read: \"region = 'EU'\"",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="first publish that all rows of the table are gone, so that vanished ones do not stay",
    )


def run_start(options: argparse.Namespace) -> int:
    """Publish the existing rows of tables, while changes are published too."""
    if bool(options.tables) == options.all:
        raise UsageError("name the tables to read, or give --all")
    if options.replace and options.where is not None:
        raise UsageError("--replace is of all rows of a table: leave out --where")
    return _request(options, SnapshotAction.START, where=options.where, replaces=options.replace)


configure_pause = configure_resume = configure_stop = _configure


def run_pause(options: argparse.Namespace) -> int:
    """Pause reading after the rows that were read; it can be resumed."""
    return _request(options, SnapshotAction.PAUSE)


def run_resume(options: argparse.Namespace) -> int:
    """Resume reading after the last row that was published."""
    return _request(options, SnapshotAction.RESUME)


def run_stop(options: argparse.Namespace) -> int:
    """End reading; the other existing rows are not published."""
    return _request(options, SnapshotAction.STOP)


async def replacing_requests(
    journal: Journal, state: DestinationState, source: ReachableSource, *, by: str
) -> list[Note]:
    """Return the journal records that request all captured tables' rows, in place of the subscribers' rows.

    Raise SnapshotUnsupported if rows cannot be read exactly at the source.
    """
    plan, routes = journal.plan, journal.plan.rules.routes
    has_history = plan.history is not None
    refusal = unsupported(source.facts, source.address, has_history=has_history)
    if refusal is not None:
        raise refusal
    present = await in_its_own_thread(partial(_source_tables, source))
    names = {name for name in {*present, *state.versions} if routes.captures(*name)}
    request, now_ms = uuid.uuid4().hex[:12], time.time_ns() // 1_000_000
    return [
        note_of(
            SnapshotRequest(
                destination=plan.name,
                database=database,
                table=table,
                id=request,
                action=SnapshotAction.START,
                replaces=True,
                by=by,
                ts_ms=now_ms,
            )
        )
        for database, table in sorted(names)
    ]


def _source_tables(source: ReachableSource) -> set[TableName]:
    """The tables of a source that the account can see."""
    with connected(source.address) as cursor:
        return set(InventoryReader(cursor, server_of(source.facts)).names())


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """The snapshots of a destination at one time."""

    tables: Mapping[str, Mapping[str, Any]]
    """By table, as ``TableSnapshot.to_json`` has it."""
    waits: tuple[str, ...] = ()
    """What the leader waits for that does not concern a single table."""
    unanswered: str | None
    """Why the leader gave no answer, so that this is the journal's state; None: it is the leader's state."""
    leader: WorkerAt | None = None
    """The leader that answered."""

    @property
    def is_ended(self) -> bool:
        """Whether no table is being read or waits to be read."""
        return all(one["state"] not in ("waiting", "reading") for one in self.tables.values())


async def read_progress(journal: Journal, leader: WorkerAt | None = None) -> SnapshotProgress:
    """Return the progress now; raise StateUnknown if the destination has never run.

    ``leader`` is the leader that answered before; it is asked first, and the journal is read if it does not
    answer.
    """
    if leader is not None:
        answer = await _ask(journal, leader)
        if not isinstance(answer, str):
            return answer
    unanswered = "the journal names no leader"
    state = await journal.state(whole_history=False)
    if state.leader is not None:
        answer = await _ask(journal, WorkerAt(state.leader.worker, state.leader.address or ""))
        if not isinstance(answer, str):
            return answer
        unanswered = answer
    tables = {".".join(name): one.to_json() for name, one in sorted(state.snapshots.all.items())}
    return SnapshotProgress(tables=tables, unanswered=unanswered)


async def _ask(journal: Journal, leader: WorkerAt) -> SnapshotProgress | str:
    """Return the progress that the leader reports, or the reason why it reports none."""
    answer = (await read_statuses([leader]))[leader]
    if isinstance(answer, str):
        return answer
    found = answer.get(journal.plan.name)
    if found is None or found["state"] in ("STANDBY", "STOPPED"):
        return f"worker {leader.worker} does not lead it"
    waits = tuple(found.get("snapshot_waits", ()))
    return SnapshotProgress(tables=found["snapshot"], waits=waits, unanswered=None, leader=leader)


_SECONDS = 1.0
_BAR = 24
_HEAD = ("table", "state", "rows", "of about", "", "rows/s", "left", "error")
_UP = "\x1b[{}A\x1b[J"


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Add whether to watch the progress."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show it again each second, until nothing is being read",
    )
    arguments.add_format(parser)


def run_status(options: argparse.Namespace) -> int:
    """Print the progress; return 1 if a table failed, else 0."""
    journal, shown = Journal.of(load(), options.destination), 0
    leader: WorkerAt | None = None
    while True:
        found = run_operation(read_progress(journal, leader))
        leader = found.leader
        lines = _progress_lines(found, now_ms=time.time_ns() // 1_000_000)
        if shown and sys.stdout.isatty():
            sys.stdout.write(_UP.format(shown))
        print_answer(options.format, _progress_value(found), lines)
        sys.stdout.flush()
        shown = len(lines)
        if found.is_ended or not options.watch:
            break
        time.sleep(_SECONDS)
    return 1 if any(one["state"] == "failed" for one in found.tables.values()) else 0


def _progress_value(found: SnapshotProgress) -> dict[str, Any]:
    return {
        "tables": found.tables,
        "waits": list(found.waits),
        "leader_unanswered": found.unanswered,
    }


def _progress_lines(found: SnapshotProgress, *, now_ms: int) -> list[str]:
    lines = ["no table's existing rows were read"]
    if found.tables:
        rows = [_progress_row(name, one, now_ms) for name, one in found.tables.items()]
        lines = aligned_table(_HEAD, rows)
    lines += map(printed, found.waits)
    if not found.tables:
        return lines
    if found.unanswered is not None:
        lines.append(f"as the journal has it: {printed(found.unanswered)}")
    return lines


def _progress_row(name: str, one: Mapping[str, Any], now_ms: int) -> list[str]:
    rows, estimate = one["rows"], one["estimated_rows"]
    is_read = one["state"] == "reading"
    share = min(rows / estimate, 1.0) if estimate else None
    if one["state"] == "done":
        share = 1.0
    until = now_ms if is_read else one["ts_ms"]
    rate = rows / max((until - one["began_ms"]) / 1000, 0.001) if rows else 0.0
    left = (estimate - rows) / rate if is_read and estimate and rate else None
    return [
        name,
        one["state"],
        f"{rows:,}",
        f"{estimate:,}" if estimate is not None else "-",
        _bar(share),
        f"{rate:,.0f}" if rows else "-",
        _duration(left),
        one["error"] or "-",
    ]


def _bar(share: float | None) -> str:
    if share is None:
        return "-"
    full = int(share * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {share:4.0%}"


def _duration(seconds: float | None) -> str:
    if seconds is None or seconds < 0:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


FORM = 1
FORM_WITH_REFUSED = 2
"""The form of a plan with refused tables, which an earlier sink would ignore."""
_BY_WORKER = "Let the worker read the existing rows: see docs/snapshots.md."
_FIRST_ROW = (
    "Publish one row, and so the columns, of each of them first: python -m app snapshot start {destination} "
    '{table} --where "{key} = …"'
)
_NAMED = 10
"""The most tables that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The plan for some tables of a destination."""

    destination: str
    prefix: str
    server_uuid: str
    made_ms: int
    tables: Sequence[dict[str, Any]]
    empty: Sequence[TableName] = ()
    """Real tables without rows, of which nothing was published: all rows that they get later are published."""
    refused: Mapping[TableName, str] = field(default_factory=dict)
    """Logical tables for which a SELECT does not return what their topic has, with reason and remedy."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the sink reads it: see docs/sink/bulk-load.md."""
        refused = [{"logical": list(name), "why": why} for name, why in self.refused.items()]
        return {
            "what": "aqueduct load plan",
            "form": FORM_WITH_REFUSED if self.refused else FORM,
            "destination": self.destination,
            "prefix": self.prefix,
            "server_uuid": self.server_uuid,
            "made_ms": self.made_ms,
            "tables": list(self.tables),
            "empty": [list(name) for name in self.empty],
            **({"refused": refused} if refused else {}),
        }


async def plan_load(
    journal: Journal,
    given: Iterable[TableName],
    report: ReportUnreachable,
    *,
    keeps_refused: bool = False,
) -> LoadPlan:
    """Return the plan for real or logical tables, always with all real tables of a logical table.

    A plan that ``keeps_refused`` also has the tables whose rows cannot be read by a SELECT alone, with the
    reason; otherwise SnapshotUnsupported is raised for the first such table. Raise UsageError for a table that
    is not captured, and NotComparable if no schema history is kept.
    """
    state = await journal.state()
    assert state.cursor is not None
    server = state.cursor.offset.server_uuid
    source = await reachable_source(journal, state, report, server_uuid=server)
    name = journal.plan.name
    if source.facts.is_mariadb or not source.facts.has_gtids:
        raise SnapshotUnsupported(
            "the sink finds the position of what it reads by GTIDs, which this server does not have",
            destination=name,
            remedy=_BY_WORKER,
        )
    definitions = await definitions_now(journal, source.facts)
    names = wanted_tables(definitions, given)
    # All real tables of a logical table, since the sink replaces a logical table as a whole.
    logical = {_logical(definitions, one) for one in names}
    names = [one for one in wanted_tables(definitions, ()) if _logical(definitions, one) in logical]
    # Determined before the sink reads the tables: a row that comes later is published.
    unpublished = [one for one in names if one not in definitions.state.versions]
    refused = dict[TableName, str]() if keeps_refused else None
    read_empty = partial(_empty, definitions, source.address, unpublished, refused)
    empty = await in_its_own_thread(read_empty)
    filled = [one for one in names if one not in empty] or names
    captured = _readable(definitions, filled, name, refused)
    return LoadPlan(
        destination=name,
        prefix=journal.plan.rules.prefix,
        server_uuid=source.facts.server_uuid,
        made_ms=time.time_ns() // 1_000_000,
        tables=[
            _planned(definitions, own, one)
            for one, own in captured.items()
            if own.route.logical not in (refused or {})
        ],
        empty=[one for one in names if one not in filled],
        refused=refused or {},
    )


def _empty(
    definitions: Definitions,
    address: SourceAddress,
    names: Iterable[TableName],
    refused: dict[TableName, str] | None,
) -> set[TableName]:
    """The tables in ``names`` that have no row; adds the logical names of unreadable tables to ``refused``."""
    if refused is None:
        return empty_tables(address, names)
    found = set[TableName]()
    for name in names:
        try:
            found |= empty_tables(address, [name])
        except TableUnreadable as error:
            _refuse(definitions, name, error, refused)
    return found


def _readable(
    definitions: Definitions,
    names: Iterable[TableName],
    destination: str,
    refused: dict[TableName, str] | None,
) -> dict[TableName, CapturedTable]:
    """The tables whose published rows a SELECT returns; adds the logical names of the others to ``refused``.

    If ``refused`` is None, raise SnapshotUnsupported instead.
    """
    found = dict[TableName, CapturedTable]()
    for name in names:
        try:
            found[name] = _captured(definitions, name, destination)
        except SnapshotUnsupported as error:
            _refuse(definitions, name, error, refused)
    for lacking in _unpublished(definitions, found, each=refused is not None):
        unpublished = _not_published(definitions, lacking, destination)
        _refuse(definitions, lacking[0], unpublished, refused)
    return found


def _refuse(
    definitions: Definitions,
    name: TableName,
    error: SnapshotUnsupported | TableUnreadable,
    refused: dict[TableName, str] | None,
) -> None:
    if refused is None:
        raise error
    why = printed(f"{error.detail}. {error.advice}")
    refused.setdefault(_logical(definitions, name), why)


def _logical(definitions: Definitions, name: TableName) -> TableName:
    route = definitions.rules.routes.of(name)
    assert route is not None
    return route.logical


def _captured(definitions: Definitions, name: TableName, destination: str) -> CapturedTable:
    """A table as it is published; raise SnapshotUnsupported if a SELECT does not return those rows."""
    table = definitions.tables[name]
    try:
        captured = definitions.expected.captured(name, table)
    except NotComparable as error:
        raise _refused(error.detail or "", name, destination) from error
    if captured.route.mapped is not None and definitions.rules.routes.merged:
        raise _refused("a merge publishes its changes", name, destination)
    if reason := _obstacle(captured, table):
        raise _refused(reason, name, destination)
    return captured


def _planned(definitions: Definitions, captured: CapturedTable, name: TableName) -> dict[str, Any]:
    table, version = definitions.tables[name], definitions.state.versions[name]
    sources = _sources(captured, table)
    types = {column.name: column.type for column in table.columns}
    return {
        "database": name[0],
        "table": name[1],
        "logical": list(captured.route.logical),
        "is_mapped": captured.route.mapped is not None,
        "topic": captured.route.topic,
        "version": version.version,
        "key": list(table.primary_key),
        "columns": [
            {"name": one.name, "source": source, "column_type": types[source]}
            for one in captured.definition.columns
            for source in (sources[one.name],)
        ],
    }


def _unpublished(
    definitions: Definitions, captured: Mapping[TableName, CapturedTable], *, each: bool
) -> list[list[TableName]]:
    """The tables whose present columns are not on the schemas topic: in one list, or with ``each`` singly."""
    versions = definitions.state.versions
    lacking = [
        name
        for name, own in captured.items()
        if name not in versions or not versions[name].definition.is_same(own.definition)
    ]
    return [[name] for name in lacking] if each else [lacking] if lacking else []


def _not_published(
    definitions: Definitions, lacking: Sequence[TableName], destination: str
) -> SnapshotUnsupported:
    first = lacking[0]
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return SnapshotUnsupported(
        f"no record of {', '.join('.'.join(one) for one in lacking[:_NAMED])}{more} was published since its "
        "columns are what they are, so the sink does not know them",
        destination=destination,
        remedy=_FIRST_ROW.format(
            destination=destination,
            table=".".join(first),
            key=definitions.tables[first].primary_key[0],
        ),
    )


def _refused(reason: str, name: TableName, destination: str) -> SnapshotUnsupported:
    return SnapshotUnsupported(
        f"{'.'.join(name)} cannot be read by the sink, as {reason}",
        destination=destination,
        remedy=_BY_WORKER,
    )


def _obstacle(captured: CapturedTable, table: Table) -> str | None:
    """Why a SELECT does not return what the topic of a table has; None if it does."""
    route = captured.route
    if not table.primary_key:
        return "it has no primary key"
    if route.format != DEBEZIUM:
        return f"its records are in the format {route.format}"
    if not captured.has_row_keys:
        return "its records' key is not its primary key"
    if captured.selection is not None:
        return "its mapping filters rows or operations"
    if route.column_rules:
        return f"values are hidden of: {', '.join(sorted(route.column_rules))}"
    return None


def _sources(captured: CapturedTable, table: Table) -> dict[str, str]:
    """The real column of each published column."""
    there = {column.name.lower(): column.name for column in table.columns}
    found = {name: name for name in there.values()}
    mapped = captured.route.mapped
    for action in mapped.rules.column_actions if mapped is not None else ():
        if action.action == "rename":
            found[action.argument] = there[action.column.lower()]
    return found


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Add a destination and its tables."""
    parser.epilog = (
        "`python -m spark_sink load` reads the rows by this plan, in parallel and straight into the warehouse. "
        "Make the plan right before, as it shows tables and mapping as they are now."
    )
    arguments.add_destination(parser)
    arguments.add_tables(parser)
    parser.add_argument(
        "--keep-refused",
        action="store_true",
        help="keep tables that the sink cannot read in the plan, with the reason, for `spark_sink validate`, "
        "which reports them; `spark_sink load` refuses such a plan",
    )


def run_plan(options: argparse.Namespace) -> int:
    """Print the plan."""
    if not options.tables:
        raise UsageError("name the tables to read")
    settings = run_operation(with_mapping_in_force(load(), options.destination))
    journal = Journal.of(settings, options.destination)
    plan = run_operation(
        plan_load(journal, options.tables, report_unreachable, keeps_refused=options.keep_refused)
    )
    sys.stdout.write(json.dumps(plan.to_json(), indent=2) + "\n")
    return 0
