"""Definitions of tables as of a position: one, its difference between two positions, or all as
statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.operator.operations.given_position import GivenPosition
from app.operator.operations.schema.destination_history import ReadHistory
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.show_create import create_table
from tables.history.differences import Difference, differences
from tables.history.record import Known, TableState, Unresolved
from tables.state.quarantine import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table as of a position; without a state the history does not contain it up to there."""

    state: TableState | None
    quarantine: Entry | None
    """Its quarantine entry, if any: its rows may then contradict its definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A table as of two positions."""

    old: TableState | None
    new: TableState | None
    differences: tuple[Difference, ...]

    @property
    def unresolved(self) -> tuple[Unresolved, ...]:
        """The unresolved ones of both."""
        return tuple(one for one in (self.old, self.new) if isinstance(one, Unresolved))


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStatements:
    """Databases as statements; ``is_whole``: nothing in them is unresolved."""

    statements: Mapping[str, str]
    is_whole: bool


async def table_at(
    read: ReadHistory,
    table: TableName,
    position: GivenPosition | None,
    *,
    server: str | None = None,
) -> TableAt:
    """Return a table as of a position; without one, at the end of the history."""
    found = await read()
    state = found.at(position, server).state(*table)
    return TableAt(state=state, quarantine=found.quarantined(table, position))


async def compare_definitions(
    read: ReadHistory,
    table: TableName,
    positions: tuple[GivenPosition | None, GivenPosition | None],
    *,
    server: str | None = None,
) -> Comparison:
    """Return a table as of two positions, and their differences."""
    found = await read()
    old, new = (found.at(position, server).state(*table) for position in positions)
    changed = differences(*(one.table if isinstance(one, Known) else None for one in (old, new)))
    return Comparison(old=old, new=new, differences=tuple(changed))


async def rebuild_statements(
    read: ReadHistory,
    position: GivenPosition | None,
    *,
    server: str | None = None,
    database: str | None = None,
) -> RebuildStatements:
    """Return the statements that make all tables of all databases, or of one, as of a position."""
    view = (await read()).at(position, server)
    texts = {
        name: text
        for name, text in view.snapshot(create_table).items()
        if database is None or name == database
    }
    lacking = [name for name in view.unresolved() if name[0] in texts]
    return RebuildStatements(statements=texts, is_whole=not lacking)
