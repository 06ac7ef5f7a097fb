"""CREATE TABLE in all its forms.

Invariant: the columns are parsed to the last attribute; only partitions and the query are skipped
as a whole, and the query is kept.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import TableRef
from connectors.mysql.ddl.grammar import keys
from connectors.mysql.ddl.grammar.columns import column
from connectors.mysql.ddl.grammar.options import begins_query, skip_partitions, table_options
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement import ColumnSpec, CreateTable, IndexSpec, Period


class Elements:
    """The contents of the parentheses during parsing."""

    __slots__ = ("columns", "indexes", "periods")

    def __init__(self) -> None:
        self.columns: list[ColumnSpec] = []
        self.indexes: list[IndexSpec] = []
        self.periods: list[Period] = []


def create_table(reader: Reader, *, or_replace: bool, temporary: bool) -> CreateTable:
    """Parse the rest of CREATE TABLE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.table()
    like = _like(reader)
    elements = Elements()
    if like is None and reader.key == "(" and not begins_query(reader):
        reader.enclosed(lambda: element(reader, elements))
    options = table_options(reader)
    skip_partitions(reader, begins_query)
    select = _query(reader) if like is None else None
    return CreateTable(
        name=name,
        temporary=temporary,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        columns=tuple(elements.columns),
        indexes=tuple(elements.indexes),
        periods=tuple(elements.periods),
        options=options,
        like=like,
        select=select,
    )


def _like(reader: Reader) -> TableRef | None:
    if reader.take("LIKE"):
        return reader.table()
    if reader.take("(", "LIKE"):
        table = reader.table()
        reader.need(")")
        return table
    return None


def element(reader: Reader, elements: Elements) -> None:
    """Parse one column, key, check or period between commas."""
    if keys.is_key(reader):
        if (key := keys.key(reader)) is not None:
            elements.indexes.append(key)
    elif reader.take("PERIOD", "FOR"):
        elements.periods.append(period(reader))
    else:
        spec = column(reader)
        elements.columns.append(spec)
        elements.indexes += keys.of_column(spec, reader.server)


def period(reader: Reader) -> Period:
    """Parse the rest of PERIOD FOR: its name, and its start and end columns."""
    name = reader.name()
    reader.need("(")
    begin = reader.column()
    reader.need(",")
    end = reader.column()
    reader.need(")")
    return Period(name=name, begin=begin, end=end)


def _query(reader: Reader) -> str | None:
    """The query at the statement's end."""
    _ = reader.take("IGNORE") or reader.take("REPLACE")
    reader.take("AS")
    if not begins_query(reader):
        return None
    begin = reader.at
    while reader.key not in ("", ";"):
        reader.at += 1
    return reader.rendered(begin, reader.at)
