"""Rows of a table whose TABLE_MAP marks NOT NULL columns as nullable, checked for a NULL in one of them.

A server marks all columns as nullable if a statement has the table on the inner side of an outer join. Without
row metadata this looks like a table that was altered with its binlog off.

Invariant: no row with a NULL in a column that is NOT NULL by its definition is published.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.errors import WitnessesDiffer
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.rows.decoder import RowDecoder


class NullCheck:
    """Decodes rows as ``rows`` does, after checking the columns ``never_null``."""

    def __init__(
        self,
        table_map: TableMap,
        charsets: Charsets,
        rows: Callable[[int, bytes], list[Row]],
        *,
        never_null: frozenset[int],
    ) -> None:
        self._images = RowDecoder(table_map, charsets)
        self._rows = rows
        self._name = (table_map.database, table_map.table)
        self._columns = {index: table_map.columns[index].name for index in never_null}

    def rows(self, event_type: int, body: bytes) -> list[Row]:
        """Return the rows of an event; raises WitnessesDiffer if one of those columns is NULL."""
        rows = self._rows(event_type, body)
        for change in self._images.decode(event_type, body):
            for image in (change.before, change.after):
                for index, column in self._columns.items():
                    if image is not None and image[index] is None:
                        raise WitnessesDiffer.of(
                            self._name, f"column {column!r} is NULL in a row, NOT NULL defined"
                        )
        return rows
