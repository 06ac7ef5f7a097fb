"""The table that CREATE TABLE creates.

Invariant: the table is what the server would create, including generated names of keys; a definition
that the server would refuse is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl import collations
from connectors.mysql.ddl.definition import Column, Database, Index, Table
from connectors.mysql.ddl.resolve import keys
from connectors.mysql.ddl.resolve.columns import Terms, made, required
from connectors.mysql.ddl.resolve.options import text_of
from connectors.mysql.ddl.statement import Charset, CreateTable, Period, TableOptions
from connectors.mysql.types.type_spec import Refused


def chosen(
    charset: Charset, inherited: Database, terms: Terms, current: Database | None = None
) -> Database:
    """The character set and collation of a table or database."""
    return collations.chosen(
        charset.charset,
        charset.collation,
        inherited,
        server=terms.server,
        session=terms.session,
        current=current,
        collation_first=charset.collation_first,
    )


def created(statement: CreateTable, database: Database, terms: Terms) -> Table:
    """Return the table of a statement without a query."""
    defaults = chosen(statement.options.charset, database, terms)
    columns = [made(spec, defaults, terms) for spec in statement.columns]
    for period in statement.periods:
        columns = with_period(columns, period)
    specs = keys.with_periods(statement.indexes, statement.periods)
    indexes = keys.with_geometries(keys.added((), specs, columns), columns, terms.server)
    return finished(columns, indexes, defaults, statement.options)


def with_period(columns: list[Column], period: Period) -> list[Column]:
    """Return the columns, in which the columns of a period are NOT NULL."""
    names = {lowered(period.begin), lowered(period.end)}
    return [required(column) if lowered(column.name) in names else column for column in columns]


def finished(
    columns: list[Column], indexes: tuple[Index, ...], defaults: Database, options: TableOptions
) -> Table:
    """The table of these parts; its primary key's columns are NOT NULL."""
    unique(columns)
    return Table(
        columns=tuple(keyed(columns, indexes)),
        indexes=indexes,
        charset=defaults.charset,
        collation=defaults.collation,
        options=text_of(options),
    )


def keyed(columns: list[Column], indexes: Sequence[Index]) -> list[Column]:
    """Return the columns, in which the columns of the primary key are NOT NULL."""
    primary = next((index.columns for index in indexes if index.name == keys.PRIMARY), ())
    names = {lowered(name) for name in primary}
    if not names:
        return columns
    return [required(column) if lowered(column.name) in names else column for column in columns]


def unique(columns: Sequence[Column]) -> None:
    """Raise Refused if two columns have the same name, or if there is no column at all."""
    names = [lowered(column.name) for column in columns]
    if not names:
        raise Refused("a table has at least one column")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"there is a column {twice} already")
