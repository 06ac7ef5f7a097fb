"""The tables that are captured, as TABLE_MAP events describe them.

The law: whether a table is captured is judged once for each description, and so is how its rows are decoded.
"""

from __future__ import annotations

from app.pipeline.filter import TableFilter
from connectors.mysql.charsets import Charsets
from connectors.mysql.column_type import column_charset, column_type
from connectors.mysql.compiled.counting import RowCounter
from connectors.mysql.compiled.decoder import CompiledDecoder
from connectors.mysql.table_map import MappedColumn, TableMap
from tables.version import Column, Definition

_MOST_TABLES = 20_000


class CapturedTable:
    """A table as one TABLE_MAP describes it, with the decoder of its rows."""

    __slots__ = ("definition", "name", "rows")

    def __init__(self, table_map: TableMap, charsets: Charsets) -> None:
        self.name = (table_map.database, table_map.table)
        self.rows = CompiledDecoder(table_map, charsets).rows
        self.definition = _definition(table_map, charsets)


class TableBook:
    """All tables that a decoder has met."""

    def __init__(self, filter_: TableFilter, charsets: Charsets) -> None:
        self._filter = filter_
        self._charsets = charsets
        self._tables: dict[int, tuple[TableMap, CapturedTable | None]] = {}
        self._counters: dict[int, tuple[TableMap, RowCounter]] = {}

    def of(self, table_map: TableMap) -> CapturedTable | None:
        """The table, or None where nobody subscribes to it.

        Raises UnsupportedEvent where a column of a captured table cannot be read.
        """
        known = self._tables.get(id(table_map))
        return known[1] if known is not None else self._judged(table_map)

    def count(self, table_map: TableMap, event_type: int, body: bytes) -> int:
        """How many rows an event of a table that is not captured holds."""
        held = self._counters.get(id(table_map))
        if held is None:
            if len(self._counters) > _MOST_TABLES:
                self._counters.clear()
            held = self._counters[id(table_map)] = (table_map, RowCounter(table_map))
        return held[1].count(event_type, body)

    def _judged(self, table_map: TableMap) -> CapturedTable | None:
        captured = self._filter.captures(table_map.database, table_map.table)
        table = CapturedTable(table_map, self._charsets) if captured else None
        if len(self._tables) > _MOST_TABLES:
            self._tables.clear()
        # The map is kept beside, so that its id is not given to another while it stands here.
        self._tables[id(table_map)] = (table_map, table)
        return table


def _definition(table_map: TableMap, charsets: Charsets) -> Definition:
    columns = tuple(_column(column, charsets) for column in table_map.columns)
    key = tuple(columns[index].name for index in table_map.primary_key or ())
    return Definition(columns=columns, primary_key=key)


def _column(column: MappedColumn, charsets: Charsets) -> Column:
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=column.nullable,
        charset=column_charset(column, charsets),
    )
