"""The impact of a table change on its subscribers: readers of its topic, and the warehouse's table.

Invariant: the impact follows from definitions alone, and is the same before and after a statement is
run. Rows that MySQL rewrites while it alters a table are in no binlog, so a change of their values is
never harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connectors.mysql.ddl.definition import DatabaseChange, Table, TableChange, TableName
from connectors.mysql.ddl.online import Logical, Noise, OnlineAlter, TableMovedAway
from connectors.mysql.ddl.resolve.options import is_sequence
from tables.history.impact.findings import (
    Finding,
    Severity,
    column_findings,
    key_findings,
    known_renames,
)
from tables.history.impact.rule_findings import published, rule_findings
from tables.history.impact.type_change import recomputed
from tables.rules.mapping.rules import DELETES, OMIT, RECORD
from tables.rules.routes.routes import Route
from wire.records import ROWS_CHANGED, TABLE_COMES_IN, TABLE_QUARANTINED, TRUNCATE_OMITTED
from wire.text import printed
from wire.warehouse_folders import warehouse_path

__all__ = [
    "Impact",
    "RouteOf",
    "Severity",
    "ddl_effects",
    "impact",
    "rows_changed",
    "rows_kept",
    "severest",
    "truncated",
]

Renames = Mapping[TableName, Mapping[str, str]]
"""For each table, its columns' old names with the new ones, as the statement gives them."""


RouteOf = Callable[[TableName], Route | None]
"""The route of a table, as ``Routes.of``; None if it is not published, so that no subscriber is
concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One consequence."""

    route: Route
    finding: Finding

    @property
    def severity(self) -> Severity:
        """The severity of the finding."""
        return self.finding.severity

    def to_json(self) -> dict[str, Any]:
        """As written to the DDL topic and printed by commands."""
        found, (database, table) = self.finding, self.route.table
        return {
            "kind": found.kind,
            "severity": found.severity.value,
            "database": database,
            "table": table,
            "column": found.column,
            "old": found.old,
            "new": found.new,
            "topic": self.route.topic,
            "consumers": found.consumers,
            "logical": self._logical(),
            "warehouse_table": warehouse_path(*self.route.logical),
            "warehouse_columns": list(found.warehouse_columns),
            "warehouse": found.warehouse,
        }

    def _logical(self) -> dict[str, str] | None:
        """The name that a mapped table's rows have in the warehouse, which may be the real one."""
        database, table = self.route.logical
        return {"database": database, "table": table} if self.route.mapped is not None else None


def impact(
    changes: Iterable[Logical], route_of: RouteOf, *, renames: Renames | None = None
) -> tuple[Impact, ...]:
    """The impacts of some changes of one statement, in their order; see ``severest`` for the worst.

    ``renames`` are known with the statement. Otherwise a removed column and a column added at its position
    with the same definition count as a renamed column.
    """
    listed = list(changes)
    impacts = (
        Impact(route=route, finding=finding)
        for route, finding in _Reading(listed, route_of, renames or {}).findings()
    )
    return tuple(impacts)


def truncated(name: TableName, route_of: RouteOf) -> tuple[Impact, ...]:
    """The impact of TRUNCATE TABLE."""
    route = route_of(name)
    if route is None:
        return ()
    found = {RECORD: _TRUNCATED, DELETES: _DELETED, OMIT: _OMITTED}[route.truncates]
    return (Impact(route=route, finding=found),)


def rows_kept(name: TableName, route_of: RouteOf) -> tuple[Impact, ...]:
    """The further impact of a DROP or RENAME of a quarantined mapped table: nothing removes its rows."""
    route = route_of(name)
    if route is None or not route.deletes_on_drop:
        return ()
    return (Impact(route=route, finding=_KEPT),)


def rows_changed(name: TableName, what: str, route_of: RouteOf) -> tuple[Impact, ...]:
    """The impact of a statement, such as DROP PARTITION, that changes rows without a record of them."""
    route = route_of(name)
    if route is None:
        return ()
    finding = Finding(
        kind=ROWS_CHANGED,
        severity=Severity.BREAKING,
        new=what,
        consumers="Rows that it removes, brings in or changes are in no record. To send the table as it is: "
        "snapshot start with --replace.",
        warehouse="Its rows stay as they are, and status of the sink has the command that replaces them.",
    )
    return (Impact(route=route, finding=finding),)


def severest(impacts: Iterable[Impact]) -> Severity:
    """The greatest severity; harmless if there are no impacts."""
    return max((one.severity for one in impacts), key=lambda s: s.rank, default=Severity.HARMLESS)


def ddl_effects(
    changes: Iterable[Logical], route_of: RouteOf, *, renames: Renames | None = None
) -> list[dict[str, Any]]:
    """The impacts as JSON values."""
    return [one.to_json() for one in impact(changes, route_of, renames=renames)]


class _Reading:
    """Iterates over the changes of one statement."""

    def __init__(self, changes: Sequence[Logical], route_of: RouteOf, renames: Renames) -> None:
        self._changes = changes
        self._route_of = route_of
        self._renames = renames
        self._moved_from = {
            change.name: change.old
            for change in changes
            if isinstance(change, TableChange) and change.renamed_to is not None
        }
        self._from: dict[TableName, TableName] = {}
        """The first names of the tables that were renamed so far, by their present names."""
        self._skipped = {change.change.name for change in changes if isinstance(change, Noise)}
        self._moved_to = {
            change.name
            for change in changes
            if isinstance(change, TableChange) and change.renamed_from is not None
        }

    def findings(self) -> Iterator[tuple[Route, Finding]]:
        for change in self._changes:
            if isinstance(change, Noise | DatabaseChange):
                continue
            if isinstance(change, TableChange):
                self._follow(change)
            route = self._route_of(change.name)
            if route is None:
                continue
            if isinstance(change, TableChange) and is_sequence(change.new or change.old):
                continue
            for finding in self._of(change, route):
                yield route, finding

    def _follow(self, change: TableChange) -> None:
        """Follow a RENAME; if a table only passes through a name, one of its two changes may be missing."""
        if change.renamed_to is not None:
            self._from[change.renamed_to] = self._from.pop(change.name, change.name)
        elif (origin := self._from.pop(change.renamed_from or change.name, None)) is not None:
            self._from[change.name] = origin

    def _of(
        self, change: OnlineAlter | TableMovedAway | TableChange, route: Route
    ) -> Iterator[Finding]:
        if isinstance(change, TableMovedAway):
            yield _moved_away(change)
        elif isinstance(change, OnlineAlter):
            yield from self._altered(route, change.old, change.new)
        elif change.renamed_to is not None:
            yield self._renamed(change, change.renamed_to, route)
            yield from self._rows_left(route)
        elif change.new is None:
            yield _DROPPED if route.mapped is None else _dropped(route)
            yield from self._rows_left(route)
        elif change.renamed_from is not None:
            yield from self._took_name(change, change.new, route)
        else:
            yield from self._altered(route, change.old, change.new)

    def _altered(self, route: Route, old: Table | None, new: Table) -> Iterator[Finding]:
        if old is None:
            yield _CREATED
            yield from rule_findings(None, new, route, {})
            yield from column_findings(_EMPTY, published(new, route).table, {}, {}, existing=False)
            return
        stated = known_renames(old, new, self._renames.get(route.table))
        yield from rule_findings(old, new, route, stated)
        before, after = published(old, route), published(new, route, stated)
        renames = before.renames(after, stated)
        values = before.values(after, renames)
        shown = {after.names.get(name, "") for name in recomputed(old, new, stated)}
        yield from column_findings(before.table, after.table, renames, values, recomputed=shown)
        yield from key_findings(before.table, after.table, values)

    def _rows_left(self, route: Route) -> Iterator[Finding]:
        if route.mapped is not None and not route.deletes_on_drop:
            yield _KEPT

    def _renamed(self, change: TableChange, to: TableName, held: Route) -> Finding:
        route = self._route_of(to)
        going_on = (
            "Its records end." if route is None else f"Its records continue in {route.topic}."
        )
        logical = to if route is None else route.logical
        taken = change.name in self._moved_to
        return Finding(
            kind="table renamed",
            severity=Severity.BREAKING,
            old=".".join(change.name),
            new=".".join(to),
            consumers=f"{going_on} {'Those of another table replace them.' if taken else ''}".strip(),
            warehouse=f"Its rows move to {warehouse_path(*logical)}, unless on_rename of the sink is keep: "
            "then they stay, and that table begins without them."
            if held.mapped is None and (route is None or route.mapped is None)
            else f"{_dropped(held).warehouse} Under the new name, if captured, its rows are read again.",
        )

    def _took_name(self, change: TableChange, new: Table, route: Route) -> Iterator[Finding]:
        if self._moved_from.get(change.name) is not None:
            # Another table had this name: for its readers the columns changed.
            yield from self._altered(route, self._moved_from[change.name], new)
        else:
            yield from rule_findings(None, new, route, {})
        origin = self._from.get(change.name, change.renamed_from or change.name)
        before = self._route_of(origin)
        if origin == change.name:
            return
        if before is not None and origin not in self._skipped and (before.mapped or route.mapped):
            yield _READ_AGAIN
        elif before is None or origin in self._skipped:
            yield Finding(
                kind=TABLE_COMES_IN,
                severity=Severity.CAREFUL,
                old=".".join(origin),
                consumers="Its earlier rows are in no topic; changes from now on are. To send them: snapshot "
                "start, which a destination that began with existing rows does by itself.",
                warehouse="The table begins without the earlier rows, until a snapshot sends them.",
            )


_EMPTY = Table(columns=(), charset="utf8mb4", collation="utf8mb4_bin")
_CREATED = Finding(
    kind="table created",
    severity=Severity.HARMLESS,
    consumers="A new topic, from the first row on.",
    warehouse="A new table, from the first row on.",
)
_TRUNCATED = Finding(
    kind="table truncated",
    severity=Severity.CAREFUL,
    consumers="One record with op t states that all rows are gone; there are no deletes.",
    warehouse="All earlier rows are marked deleted.",
)
_DELETED = Finding(
    kind="table truncated",
    severity=Severity.CAREFUL,
    consumers="A delete of each row that its topic has precedes this (truncates: deletes).",
    warehouse="These rows are marked deleted.",
)
_OMITTED = Finding(
    kind=TRUNCATE_OMITTED,
    severity=Severity.CAREFUL,
    consumers="Nothing states that its rows are gone (truncates: omit, or operations without delete).",
    warehouse="It keeps its rows, and status says when the source's were removed.",
)
_DROPPED = Finding(
    kind="table dropped",
    severity=Severity.BREAKING,
    consumers="Its records end; no deletes are written. The topic stays.",
    warehouse="Its rows get a name of their own, unless on_drop of the sink says otherwise.",
)


_KEPT = Finding(
    kind=TRUNCATE_OMITTED,
    severity=Severity.CAREFUL,
    consumers="Nothing states that its rows are gone (on_drop: keep, no TRUNCATE is published of it, or it is "
    "quarantined).",
    warehouse="It keeps its rows, and status says when the source's were removed.",
)
_READ_AGAIN = Finding(
    kind=TABLE_COMES_IN,
    severity=Severity.CAREFUL,
    consumers="A mapping applies to one of its two names, so its rows are published again, by a snapshot that "
    "the destination begins by itself.",
    warehouse="The table begins without the earlier rows, until the snapshot sends them.",
)


def _dropped(route: Route) -> Finding:
    """The end of a table that is mapped, or that gets the name of a mapped one."""
    if route.mapped is None:
        return _DROPPED
    if not route.deletes_on_drop:
        consumers = "Its records end; no deletes are written. The topic stays."
        return replace(_DROPPED, consumers=consumers, warehouse=_KEPT.warehouse)
    found = _DELETED if route.deletes_rows else _TRUNCATED
    return replace(
        _DROPPED,
        consumers=f"Its records end. {found.consumers}",
        warehouse="Its rows are marked deleted; those of other source tables stay.",
    )


def _moved_away(change: TableMovedAway) -> Finding:
    state = "dropped" if change.to is None else f"now {'.'.join(change.to)}"
    return Finding(
        kind=TABLE_QUARANTINED,
        severity=Severity.CAREFUL,
        new=None if change.to is None else ".".join(change.to),
        consumers=f"It is {state}, and {change.tool} has another one ready to take its place. "
        "If that does not happen, its records end.",
        warehouse="The table stays with the rows that it has.",
    )


NOTHING = "harmless: nothing changes for subscribers"


def as_text(impacts: Sequence[Impact]) -> str:
    """A summary, then each consequence in some lines, with a final line end."""
    if not impacts:
        return f"{NOTHING}\n"
    ordered = sorted(impacts, key=lambda one: -one.severity.rank)
    counts = ", ".join(
        f"{count} {severity.value}"
        for severity in reversed(Severity)
        if (count := sum(one.severity is severity for one in impacts))
    )
    lines = [f"{severest(impacts).value}: {counts}"]
    for one in ordered:
        lines += ["", *_lines(one)]
    return "\n".join(map(printed, lines)) + "\n"


def _lines(one: Impact) -> Iterator[str]:
    found = one.finding
    column = ".".join(part for part in (*one.route.table, found.column) if part)
    change = " -> ".join(part for part in (found.old, found.new) if part)
    yield f"{found.severity.value}: {found.kind}: {column}{f': {change}' if change else ''}"
    if found.consumers:
        yield f"  topic {one.route.topic}: {found.consumers}"
    if found.warehouse:
        columns = f" ({', '.join(found.warehouse_columns)})" if found.warehouse_columns else ""
        yield f"  warehouse {warehouse_path(*one.route.logical)}{columns}: {found.warehouse}"
