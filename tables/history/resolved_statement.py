"""A resolved statement: its effect at the end of a history, in which some tables may be unknown.

A statement is parsed and resolved once, at its position; the result is stored, sent to the decoders, and
published.

Invariant: a table that a statement derives from an unknown table is unknown too, until it is dropped or
recreated. The tables whose rows a statement changes without row events follow from the statement and the
definitions alone. Only the server knows whether there were such rows, so every statement that may have
changed rows counts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from connectors.errors import DdlUnresolved
from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import (
    Change,
    Column,
    DatabaseChange,
    Table,
    TableChange,
    TableName,
    TableRef,
    ViewChange,
)
from connectors.mysql.ddl.online import Logical, Noise, OnlineAlter, TableMovedAway
from connectors.mysql.ddl.parsed_statement import ParsedStatement, renamed_columns
from connectors.mysql.ddl.resolve.columns import is_numbered
from connectors.mysql.ddl.statement import (
    AddIndex,
    AlterTable,
    NoColumnWork,
    PartitionToTable,
    TableToPartition,
)
from tables.history.impact.findings import known_renames
from tables.history.impact.type_change import recomputed
from tables.history.record import SchemaRecord
from tables.history.view import SchemaView

_WORK: Final = {
    "DROP PARTITION",
    "TRUNCATE PARTITION",
    "EXCHANGE PARTITION",
    "DISCARD TABLESPACE",
    "IMPORT TABLESPACE",
    "DROP SYSTEM VERSIONING",
    PartitionToTable.kind,
    TableToPartition.kind,
}
_IGNORE: Final = "ALTER IGNORE"
_BLACKHOLE: Final = re.compile(r"\bENGINE\s*=?\s*['\"`]?BLACKHOLE\b", re.IGNORECASE)


def unlogged_rows(
    statement: ParsedStatement, changes: Sequence[Change] = ()
) -> tuple[tuple[TableName, str], ...]:
    """Return the tables, each with the action; ``changes`` are the statement's changes of definitions."""
    tree = statement.tree
    found = dict(_of_definitions(changes))
    if isinstance(tree, AlterTable):
        for what in (action.kind for action in tree.actions if action.kind in _WORK):
            found |= dict.fromkeys(statement.full([tree.name]), what)
        for ref, what in _others(tree):
            found |= dict.fromkeys(statement.full([ref]), what)
        if tree.ignore and changes:
            found |= dict.fromkeys(_with_fewer_rows(changes), _IGNORE)
        elif tree.ignore and any(isinstance(action, AddIndex) for action in tree.actions):
            found |= dict.fromkeys(statement.full([tree.name]), _IGNORE)
    return tuple(sorted(found.items()))


def _others(tree: AlterTable) -> Iterator[tuple[TableRef, str]]:
    for action in tree.actions:
        if isinstance(action, NoColumnWork) and action.kind in _WORK:
            yield from ((ref, action.kind) for ref in action.tables)
        elif isinstance(action, PartitionToTable):
            yield action.table, action.kind


def _with_fewer_rows(changes: Iterable[Change]) -> Iterator[TableName]:
    """Yield the tables with a unique key of which ALTER IGNORE may have removed duplicates.

    The key, or a column of it, is new or has another definition.
    """
    for change in changes:
        if not isinstance(change, TableChange) or change.new is None:
            continue
        columns, indexes = (
            ((), ()) if change.old is None else (change.old.columns, change.old.indexes)
        )
        others = {one.name for one in change.new.columns if one not in columns}
        if any(
            one.unique and (one not in indexes or others.intersection(one.columns))
            for one in change.new.indexes
        ):
            yield change.name


def _of_definitions(changes: Iterable[Change]) -> Iterator[tuple[TableName, str]]:
    for change in changes:
        if not isinstance(change, TableChange) or change.old is None or change.new is None:
            continue
        if _is_newly_numbered(change.old, change.new):
            yield change.name, "AUTO_INCREMENT"
        if _BLACKHOLE.search(change.new.options) and not _BLACKHOLE.search(change.old.options):
            yield change.name, "ENGINE=BLACKHOLE"


def _is_newly_numbered(old: Table, new: Table) -> bool:
    """Whether the values of a column that the table had become those of an AUTO_INCREMENT."""
    numbered = {one.origin or one.name for one in old.columns if is_numbered(one)}
    names = {lowered(one.name) for one in old.columns}
    origins = {one.origin or one.name for one in old.columns}
    return any(
        is_numbered(one)
        and (one.origin or one.name) not in numbered
        and (lowered(one.name) in names or one.origin in origins)
        for one in new.columns
    )


log = logging.getLogger(__name__)

_NAMELESS = Column(name="\0", type="int", nullable=True)
_TRUNCATE = "TRUNCATE TABLE"
UNKNOWN = Table(columns=(_NAMELESS,), charset="utf8mb4", collation="utf8mb4_general_ci")
"""Represents in a catalog a table whose definition is not known. No column can have this column's name,
so no statement names it, and every table derived from this table still contains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedStatement:
    """A statement and its effect on tables and databases."""

    type: str
    """The statement type, such as ``ALTER TABLE``."""
    changes: tuple[Change, ...] = ()
    """In the order in which they happened."""
    reason: str | None = None
    """Why it could not be resolved; None if it could."""
    unresolved: tuple[TableName, ...] = ()
    """The tables whose definition is unknown after it."""
    emptied: tuple[TableName, ...] = ()
    """The tables that it truncates."""
    views: tuple[ViewChange, ...] = ()
    renames: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    """For each altered table, old column names to new ones."""
    unlogged: tuple[tuple[TableName, str], ...] = ()
    """The tables whose rows it changes without row events, and the clause that does so."""
    record: SchemaRecord | None = None
    """Its record in the history; None if it changes nothing there."""
    logical: tuple[Logical, ...] = ()
    """Its changes without the steps of online schema change tools, if such steps were looked for."""
    is_noise: bool = False
    """Whether it only serves such a tool."""
    is_of_temporary: bool = False
    """Whether all tables that it names are temporary tables of its connection, whose rows are not captured."""

    def logical_changes(self) -> Iterator[Change]:
        """Yield its changes as a user's statements would have made them."""
        for one in self.logical:
            if isinstance(one, OnlineAlter):
                yield one.change
            elif isinstance(one, TableMovedAway):
                yield TableChange(name=one.name, old=one.old, new=None, renamed_to=one.to)
            elif not isinstance(one, Noise):
                yield one

    def departed(self) -> list[TableChange]:
        """Return the tables that it drops, and those that it renames, as they were before it, in order.

        Steps of an online schema change tool are omitted, if they were looked for.
        """
        found: dict[TableName, tuple[TableChange, TableName | None]] = {}
        for one in self.logical or self.changes:
            if isinstance(one, TableChange) and one.new is None:
                # A table may go through a third name, as in a swap.
                through = (name for name, (_, now) in found.items() if now == one.name)
                first = next(through, one.name)
                found[first] = found.get(first, (one,))[0], one.renamed_to
        return [change for name, (change, now) in found.items() if now != name]

    def with_tables(self, converted: Callable[[Table], Table]) -> ResolvedStatement:
        """Return it with its tables' definitions converted."""

        def of(table: Table | None) -> Table | None:
            return None if table is None else converted(table)

        changes = (
            replace(one, old=of(one.old), new=of(one.new)) if isinstance(one, TableChange) else one
            for one in self.changes
        )
        return replace(self, changes=tuple(changes))

    @property
    def has_effect(self) -> bool:
        """Whether it changes the history or the rows of a table."""
        return bool(self.changes or self.emptied or self.views) or self.reason is not None


def fill(catalog: Catalog, view: SchemaView) -> None:
    """Put all tables of a view into an empty catalog."""
    for name, database in view.databases().items():
        catalog.put_database(name, database)
    for table_name, table in view.tables().items():
        catalog.put(table_name, table)
    for table_name in view.unresolved():
        catalog.put(table_name, UNKNOWN)
    for view_name in view.views():
        catalog.put_view(view_name)


def resolved(
    statement: ParsedStatement, catalog: Catalog, *, may_quote: bool = True
) -> ResolvedStatement:
    """Resolve a statement by a catalog, and apply it there.

    ``may_quote``: whether the log and the reason may have the text of an unexpected exception.
    """
    views, thread = catalog.views, statement.session.thread
    temporary = {name for name in statement.tables if catalog.hides(name, thread)}
    try:
        made = _trusted(statement.type, catalog.apply_parsed(statement))
    except DdlUnresolved as error:
        reason, names = error.detail or str(error), error.tables
        made = ResolvedStatement(type=statement.type, reason=reason, unresolved=names)
    except Exception as error:
        # A fault of Aqueduct, too, concerns only the tables of the statement; nothing was changed.
        reason = repr(error) if may_quote else type(error).__name__
        log.error("a statement cannot be taken: %s", statement.text, exc_info=may_quote)
        names = tuple(sorted(statement.tables))
        made = ResolvedStatement(type=statement.type, reason=reason, unresolved=names)
    for name in made.unresolved:
        catalog.put(name, UNKNOWN)
    renames = renamed_columns(statement)
    unlogged = dict(_recomputed(made.changes, renames)) | dict(
        unlogged_rows(statement, made.changes)
    )
    has_emptied = statement.type == _TRUNCATE and not made.changes and made.reason is None
    return replace(
        made,
        emptied=tuple(sorted(statement.tables - temporary)) if has_emptied else (),
        views=_moved(views, catalog.views),
        renames=renames,
        unlogged=tuple(sorted(one for one in unlogged.items() if one[0] not in temporary)),
        is_of_temporary=bool(temporary) and temporary == statement.tables,
    )


def without_change(
    statement: ParsedStatement, record: SchemaRecord | None = None
) -> ResolvedStatement:
    """Return a statement that changes no definition, or whose changes the history already has."""
    return ResolvedStatement(
        type=statement.type,
        emptied=tuple(sorted(statement.tables)) if statement.type == _TRUNCATE else (),
        unlogged=unlogged_rows(statement),
        record=record,
    )


def _moved(old: frozenset[TableName], new: frozenset[TableName]) -> tuple[ViewChange, ...]:
    dropped_views = (ViewChange(name=name, is_there=False) for name in sorted(old - new))
    created_views = (ViewChange(name=name, is_there=True) for name in sorted(new - old))
    return (*dropped_views, *created_views)


def _recomputed(
    changes: Iterable[Change], renames: Mapping[TableName, Mapping[str, str]]
) -> Iterator[tuple[TableName, str]]:
    """Yield the tables with generated columns whose values in existing rows are recomputed."""
    for change in changes:
        if not isinstance(change, TableChange) or change.old is None or change.new is None:
            continue
        stated = known_renames(change.old, change.new, renames.get(change.name, {}))
        if columns := recomputed(change.old, change.new, stated):
            yield change.name, f"recomputation of {', '.join(columns)}"


def _trusted(type_: str, changes: tuple[Change, ...]) -> ResolvedStatement:
    """The changes of known tables; unknown tables only by name."""
    known: list[Change] = []
    unresolved: dict[TableName, None] = {}
    for change in changes:
        if isinstance(change, DatabaseChange):
            known.append(change)
        elif change.new is not None and _is_doubtful(change):
            unresolved[change.name] = None
        else:
            # If a name occurs again, as when tables are swapped, the last change counts.
            unresolved.pop(change.name, None)
            known.append(_without_placeholder(change))
    reason = "it changes a definition that is not known" if unresolved else None
    return ResolvedStatement(
        type=type_, changes=tuple(known), reason=reason, unresolved=tuple(unresolved)
    )


def _is_doubtful(change: TableChange) -> bool:
    return any(table is not None and _is_placeholder(table) for table in (change.old, change.new))


def _is_placeholder(table: Table) -> bool:
    return any(column.name == _NAMELESS.name for column in table.columns)


def _without_placeholder(change: TableChange) -> TableChange:
    if change.old is None or not _is_placeholder(change.old):
        return change
    return TableChange(
        name=change.name,
        old=None,
        new=change.new,
        renamed_to=change.renamed_to,
        renamed_from=change.renamed_from,
    )
