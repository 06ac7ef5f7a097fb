"""Rows of a SELECT as the binlog would have them: the bodies of WRITE_ROWS events.

Invariant: decoded, they are the very rows that the binlog path decodes for the same values. A value without an
exact form stops the table.
Source: MySQL's libs/mysql/binlog/event/rows_event.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.select.encoders.fields import field_of
from connectors.mysql.select.encoders.generate import Row, image_function, value_functions
from connectors.mysql.select.table_map_body import packed_integer

MOST_BYTES = 1 << 18
"""Bytes of an event's body after which the next one begins."""
_STATEMENT_END = 1
_NO_EXTRA_DATA = 2
_FAULTS = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, struct.error)


class RowEncoder:
    """Encodes rows of one version of one table.

    The rows are those of a SELECT of ``SelectedTable`` in a session after ``SESSION``, with values as the text
    protocol has them. An encoder is used by one thread at a time. Raises SnapshotUnsupported for a table whose
    rows cannot be read exactly.
    """

    event_type = EventType.WRITE_ROWS
    """The type of the events."""

    def __init__(self, table_map: TableMap) -> None:
        """``table_map``: that of the events, with all metadata."""
        self._name = f"{table_map.database}.{table_map.table}"
        self._columns = [column.name for column in table_map.columns]
        try:
            self._fields = [field_of(column) for column in table_map.columns]
        except SnapshotUnsupported as error:
            raise SnapshotUnsupported(error.detail, table=self._name) from None
        self._image = image_function(self._fields)
        self._head = b"".join(
            (
                table_map.table_id.to_bytes(6, "little"),
                struct.pack("<HH", _STATEMENT_END, _NO_EXTRA_DATA),
                packed_integer(len(self._columns)),
                # Every column is in the image; the bits after the last one are set too, as the server does.
                b"\xff" * ((len(self._columns) + 7) // 8),
            )
        )

    def bodies(self, rows: Iterable[Row], *, most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
        """The bodies of events with these rows, in order; none without rows.

        A body has at most ``most_bytes`` unless a single row has more. Raises SnapshotUnsupported if a value
        cannot be encoded exactly.
        """
        encode, images, head = self._image, list[bytes](), self._head
        left = most_bytes - len(head)
        for row in rows:
            try:
                image = encode(row)
            except _FAULTS:
                # The errors of encoders may contain row data.
                raise self._refused(row) from None
            left -= len(image)
            if left < 0 and images:
                yield head + b"".join(images)
                images.clear()
                left = most_bytes - len(head) - len(image)
            images.append(image)
        if images:
            yield head + b"".join(images)

    def _refused(self, row: Row) -> SnapshotUnsupported:
        """The error for a row, with the column at fault."""
        if len(row) != len(self._columns):
            detail = f"a row has {len(row)} values, of {len(self._columns)} columns"
            return SnapshotUnsupported(detail, table=self._name)
        functions = value_functions(self._fields)
        for name, encode, value in zip(self._columns, functions, row, strict=True):
            try:
                encode([value])
            except _FAULTS:
                detail = f"a value of column {name!r} is not in the form of its type"
                return SnapshotUnsupported(detail, table=self._name)
        return SnapshotUnsupported("a row cannot be encoded", table=self._name)
