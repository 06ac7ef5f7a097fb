"""The effect of a statement at the end of a history, in which some tables may be unknown.

Invariant: what a statement makes of an unknown table is unknown too, until the table is dropped or
recreated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import (
    Change,
    Column,
    DatabaseChange,
    Table,
    TableChange,
    TableName,
    ViewChange,
)
from connectors.mysql.ddl.parsed_statement import ParsedStatement
from tables.history.view import SchemaView

log = logging.getLogger(__name__)

_NAMELESS = Column(name="\0", type="int", nullable=True)
UNKNOWN = Table(columns=(_NAMELESS,), charset="utf8mb4", collation="utf8mb4_general_ci")
"""Represents in a catalog a table whose definition is not known: no column can have such a name, so
no statement names it, and every table made from this one still contains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of a statement."""

    changes: tuple[Change, ...] = ()
    reason: str | None = None
    unresolved: tuple[TableName, ...] = ()
    unchanged: tuple[TableName, ...] = ()
    """Tables that it empties."""
    views: tuple[ViewChange, ...] = ()

    def with_tables(self, converted: Callable[[Table], Table]) -> Effect:
        """Return the effect with other definitions of its tables."""

        def of(table: Table | None) -> Table | None:
            return None if table is None else converted(table)

        changes = (
            replace(one, old=of(one.old), new=of(one.new)) if isinstance(one, TableChange) else one
            for one in self.changes
        )
        return replace(self, changes=tuple(changes))

    def __bool__(self) -> bool:
        return bool(self.changes or self.unchanged or self.views) or self.reason is not None


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


def effect_of(statement: ParsedStatement, catalog: Catalog, *, may_quote: bool = True) -> Effect:
    """Apply a statement to a catalog; return its effect.

    ``may_quote``: whether the log and the reason may have the text of an unexpected exception.
    """
    views = catalog.views
    try:
        changes = catalog.apply_parsed(statement)
        effect = _trusted(changes) if changes else Effect(unchanged=_emptied(statement, catalog))
    except DdlUnresolved as error:
        effect = Effect(reason=error.detail or str(error), unresolved=error.tables)
    except Exception as error:
        # A fault of ours, too, concerns only the tables of its statement; nothing was changed.
        reason = repr(error) if may_quote else type(error).__name__
        log.error("a statement cannot be taken: %s", statement.text, exc_info=may_quote)
        effect = Effect(reason=reason, unresolved=tuple(sorted(statement.tables)))
    for name in effect.unresolved:
        catalog.put(name, UNKNOWN)
    return effect if catalog.views == views else replace(effect, views=_moved(views, catalog.views))


def _moved(old: frozenset[TableName], new: frozenset[TableName]) -> tuple[ViewChange, ...]:
    dropped_views = (ViewChange(name=name, is_there=False) for name in sorted(old - new))
    created_views = (ViewChange(name=name, is_there=True) for name in sorted(new - old))
    return (*dropped_views, *created_views)


def _emptied(statement: ParsedStatement, catalog: Catalog) -> tuple[TableName, ...]:
    """The tables that a statement empties, except temporary ones."""
    if statement.type != "TRUNCATE TABLE":
        return ()
    thread = statement.session.thread
    return tuple(sorted(name for name in statement.tables if not catalog.hides(name, thread)))


def _trusted(changes: tuple[Change, ...]) -> Effect:
    """The changes of known tables; the others only by name."""
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
    return Effect(changes=tuple(known), reason=reason, unresolved=tuple(unresolved))


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
