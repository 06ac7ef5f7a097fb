"""Definitions of tables as of a place: one, its difference between two places, or all as statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.operations.given_place import GivenPlace
from app.operations.schema.destination_history import ReadHistory
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.show_create import create_table
from tables.quarantine import Entry
from tables.schema_history.diff import Difference, differences
from tables.schema_history.record import Known, TableState, Unresolved


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table as of a place; without a state the history never met it up to there."""

    state: TableState | None
    quarantine: Entry | None
    """That it is set aside or given up, which its rows may show and its definition does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A table as of two places."""

    old: TableState | None
    new: TableState | None
    differences: tuple[Difference, ...]

    @property
    def unresolved(self) -> tuple[Unresolved, ...]:
        """Those of both that are not known."""
        return tuple(one for one in (self.old, self.new) if isinstance(one, Unresolved))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """Databases as statements; ``is_whole``: nothing in them is unresolved."""

    statements: Mapping[str, str]
    is_whole: bool


async def table_at(
    read: ReadHistory, table: TableName, place: GivenPlace | None, *, server: str | None = None
) -> TableAt:
    """A table as of a place; without one, as the history ends."""
    found = await read()
    state = found.at(place, server).state(*table)
    return TableAt(state=state, quarantine=found.quarantined(table, place))


async def compared(
    read: ReadHistory,
    table: TableName,
    places: tuple[GivenPlace | None, GivenPlace | None],
    *,
    server: str | None = None,
) -> Comparison:
    """A table as of two places, and how the second differs from the first."""
    found = await read()
    old, new = (found.at(place, server).state(*table) for place in places)
    changed = differences(*(one.table if isinstance(one, Known) else None for one in (old, new)))
    return Comparison(old=old, new=new, differences=tuple(changed))


async def rebuilt(
    read: ReadHistory,
    place: GivenPlace | None,
    *,
    server: str | None = None,
    database: str | None = None,
) -> Rebuilt:
    """The statements that make all tables of all databases, or of one, as they were at a place."""
    view = (await read()).at(place, server)
    texts = {
        name: text
        for name, text in view.snapshot(create_table).items()
        if database is None or name == database
    }
    lacking = [name for name in view.unresolved() if name[0] in texts]
    return Rebuilt(statements=texts, is_whole=not lacking)
