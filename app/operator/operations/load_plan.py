"""The plan by which the sink reads existing rows of tables itself: what its SELECT must return of each.

Invariant: a table is in a plan only if the rows of a SELECT, with their columns renamed or left out, are those
that the topic would have. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app.operator.operations.journal_access import Journal
from app.operator.operations.source_connection import ReportUnreachable, reachable_source
from app.operator.operations.validation.definitions import Definitions, definitions_now
from app.operator.operations.validation.validation import wanted_tables
from app.operator.validation.rows.errors import NotComparable
from app.worker.destination.background import in_its_own_thread
from app.worker.pipeline.gather.captured_tables import CapturedTable
from connectors.errors import SnapshotUnsupported, TableUnreadable, printed
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.select.empty_tables import empty_tables
from connectors.mysql.server.facts import SourceAddress
from tables.rules.mapping.rules import DEBEZIUM

FORM = 1
FORM_WITH_REFUSED = 2
"""That of a plan with refused tables, which an earlier sink would pass by."""
_BY_WORKER = "Let the worker read the existing rows: see docs/snapshots.md."
_FIRST_ROW = (
    "Publish one row, and so the columns, of each of them first: python -m app snapshot start {destination} "
    '{table} --where "{key} = …"'
)
_NAMED = 10
"""Tables that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The plan for some tables of a destination."""

    destination: str
    prefix: str
    server_uuid: str
    made_ms: int
    tables: Sequence[dict[str, Any]]
    empty: Sequence[TableName] = ()
    """Real tables that have no row, and of which nothing was published: all of their rows will be."""
    refused: Mapping[TableName, str] = field(default_factory=dict)
    """Logical tables of which a SELECT does not return what their topic has: why, and what to do."""

    def to_json(self) -> dict[str, Any]:
        """What the sink reads: see docs/sink/bulk-load.md."""
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
    """Return the plan for tables, real or logical ones; of a logical one, for all its real tables.

    A plan that ``keeps_refused`` has tables whose rows cannot be read by a SELECT alone, with the reason; else
    SnapshotUnsupported is raised for the first one. Raises UsageError for a table that is not captured, and
    NotComparable if no schema history is kept.
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
    # All real tables of a logical one, as the sink replaces it as a whole.
    logical = {_logical(definitions, one) for one in names}
    names = [one for one in wanted_tables(definitions, ()) if _logical(definitions, one) in logical]
    # Read before the tables are: a row that comes later is published.
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
    """Those of these tables that have no row; adds the logical names of unreadable ones to ``refused``."""
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
    """How tables are published of which a SELECT returns that; adds the logical names of others to ``refused``.

    Without it, raises SnapshotUnsupported.
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
    """How a table is published; raises SnapshotUnsupported if a SELECT does not return that."""
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
    """The tables whose present columns are not on the schemas topic: each by itself, or all in one."""
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
    """The real column of each published one."""
    there = {column.name.lower(): column.name for column in table.columns}
    found = {name: name for name in there.values()}
    mapped = captured.route.mapped
    for action in mapped.rules.column_actions if mapped is not None else ():
        if action.action == "rename":
            found[action.argument] = there[action.column.lower()]
    return found
