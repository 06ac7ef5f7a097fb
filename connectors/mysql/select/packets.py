"""Rows in packets of a result: the bytes of their values, their decoder, and their form as WRITE_ROWS events.

Rows that ``PacketDecoder`` does not decode are encoded as bodies of WRITE_ROWS events, so that they are treated
like the rows of an event (with a dead letter, a check of NOT NULL).

Invariant: a body decodes to exactly the rows that the binlog path decodes for the same values. A value without
an exact form stops the table.
Source: MySQL's libs/mysql/binlog/event/rows_event.h.

The bytes of a row in the binary protocol, and of each column's value in it. Invariant: a value has the layout
of the type in the result's own description; a table is not read if a result's type differs from the
definition's. Source: MySQL's sql/protocol_classic.cc, Protocol_binary; and its manual of the protocol, "Binary
Protocol Resultset Values".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.buffer import packed_bytes, read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.rows.compiled import Change, Patterns, Row, RowsFunction, Table
from connectors.mysql.rows.decoder import ColumnRule
from connectors.mysql.select.described_table import packed_integer
from connectors.mysql.types.registry import Convert, MappedColumn, binlog_type, packet_field

Values = Sequence[bytes | None]
"""The bytes of each value in a packet, without the value's length; None for NULL."""
MOST_BYTES = 1 << 18
"""Maximum size of an event's body with several rows, in bytes."""
_LONGEST = 0xFF_FFFF
"""The length in the head of a row that was assembled from several packets."""
_STATEMENT_END = 1
_NO_EXTRA_DATA = 2
_FAULTS = (ValueError, TypeError, ArithmeticError, LookupError, struct.error)


class PacketValues:
    """Reads the values in packets of one table."""

    def __init__(self, columns: Sequence[MappedColumn]) -> None:
        self._sizes = [
            0 if (known := binlog_type(one.type)) is None else known.packet_size for one in columns
        ]

    def rows(self, packets: bytes) -> Iterator[Values]:
        """Yield the rows of packets; raise one of Python's own exceptions for malformed bytes."""
        at = 0
        while at < len(packets):
            size = uint(packets, at, 3)
            row, end = self._row(packets, at)
            if size != _LONGEST and end != at + 4 + size:
                raise ValueError(f"a row has {size} bytes, of which {end - at - 4} are its values")
            yield row
            at = end

    def _row(self, packets: bytes, at: int) -> tuple[Values, int]:
        size = bitmap_size(len(self._sizes))
        bits, at = read_bytes(packets, at + HEAD_SIZE, size)
        nulls = int.from_bytes(bits, "little") >> FIRST_BIT
        values: list[bytes | None] = []
        for n, fixed in enumerate(self._sizes):
            if nulls >> n & 1:
                values.append(None)
                continue
            raw, at = read_bytes(packets, at, fixed) if fixed else packed_bytes(packets, at)
            values.append(raw)
        return values, at


class PacketEncoder:
    """Encodes the rows of one version of one table; used by one thread at a time.

    The rows come from a SELECT of ``SelectedTable``, in a session after the statements ``SESSION``. Raises
    SnapshotUnsupported for a table whose rows cannot be read exactly.
    """

    event_type = EventType.WRITE_ROWS
    """The type of the events."""

    def __init__(self, table_map: TableMap) -> None:
        """``table_map``: the table map of the events, with all metadata."""
        self._name = f"{table_map.database}.{table_map.table}"
        self._columns = [column.name for column in table_map.columns]
        self._values = PacketValues(table_map.columns)
        self._images = [self._image_of(column) for column in table_map.columns]
        self._bitmap_size = (len(self._columns) + 7) // 8
        self._head = b"".join(
            (
                table_map.table_id.to_bytes(6, "little"),
                struct.pack("<HH", _STATEMENT_END, _NO_EXTRA_DATA),
                packed_integer(len(self._columns)),
                # Every column is in the image; like the server, also set the bits after the last column.
                b"\xff" * self._bitmap_size,
            )
        )

    def _image_of(self, column: MappedColumn) -> Convert:
        known = binlog_type(column.type)
        if known is None or known.packet_image is None:
            raise SnapshotUnsupported(
                f"column {column.name!r} has the binlog's type {column.type}", table=self._name
            )
        return known.packet_image(column)

    def bodies(self, packets: bytes, *, most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
        """Yield the bodies of events with the rows of packets, in order; nothing without rows.

        A body has at most ``most_bytes`` unless a single row has more. Raise SnapshotUnsupported if a value
        cannot be encoded exactly.
        """
        images, head = list[bytes](), self._head
        left = most_bytes - len(head)
        for row in self._rows(packets):
            image = self._image(row)
            left -= len(image)
            if left < 0 and images:
                yield head + b"".join(images)
                images.clear()
                left = most_bytes - len(head) - len(image)
            images.append(image)
        if images:
            yield head + b"".join(images)

    def _rows(self, packets: bytes) -> Iterator[Values]:
        try:
            yield from self._values.rows(packets)
        except (ValueError, IndexError, struct.error):
            # Here and below, the original errors may contain row data.
            raise SnapshotUnsupported(
                "a row is not in the form of its columns", table=self._name
            ) from None

    def _image(self, row: Values) -> bytes:
        nulls, pieces = 0, [b""]
        for n, (raw, image) in enumerate(zip(row, self._images, strict=True)):
            if raw is None:
                nulls |= 1 << n
                continue
            try:
                pieces.append(image(raw))
            except _FAULTS:
                raise SnapshotUnsupported(
                    f"a value of column {self._columns[n]!r} is not in the form of its type",
                    table=self._name,
                ) from None
        pieces[0] = nulls.to_bytes(self._bitmap_size, "little")
        return b"".join(pieces)


HEAD_SIZE = 5
"""Bytes before the bitmap of NULLs: the packet's length and number, and a zero."""
FIRST_BIT = 2
"""The bit of the first column in that bitmap."""
ROW = 0
"""The first byte of the packet of a row."""


def bitmap_size(columns: int) -> int:
    """Bytes of the bitmap of NULLs."""
    return (columns + FIRST_BIT + 7) // 8


def difference(columns: Sequence[MappedColumn], types: Iterable[int]) -> str | None:
    """Return how a result's types differ from the types of a table's columns; None if they match."""
    found = list(types)
    if len(found) != len(columns):
        return f"a SELECT returns {len(found)} columns, not {len(columns)}"
    for column, kind in zip(columns, found, strict=True):
        known = binlog_type(column.type)
        if kind not in ((known and known.packet_types) or {column.type}):
            return f"a SELECT returns column {column.name!r} with the type {kind}"
    return None


class PacketDecoder:
    """Decodes packets for a table whose rows in the binlog have the same names and key.

    Invariant: the rows equal the rows that the binlog's decoder decodes for the same values. A rare value,
    such as a character that Unicode lacks, raises an error; its rows are converted to the binlog's form.
    """

    def __init__(
        self,
        table: Table,
        table_map: TableMap,
        charsets: Charsets,
        *,
        rules: Mapping[str, ColumnRule],
    ) -> None:
        """``table``: as for the binlog's decoder; ``rules``: by column. Raise ``packet_field``'s errors."""
        fields = [
            packet_field(column, charsets, rules.get(column.name or ""))
            for column in table_map.columns
        ]
        self._patterns = Patterns(
            replace(table, fields=fields, head_size=HEAD_SIZE, first_bit=FIRST_BIT)
        )
        self._runs: dict[bytes, RowsFunction] = {}

    def rows(self, packets: bytes) -> list[Row]:
        """Decode packets as inserted rows, in order; raise one of Python's own exceptions for a rare value."""
        found: list[Row] = []
        at, end, patterns = 0, len(packets), self._patterns
        while at < end:
            run = patterns.run(self._runs, b"", patterns.nulls(packets, at), Change.INSERT)
            end_of_run = run(packets, at, end, found, patterns)
            if end_of_run == at:
                break
            at = end_of_run
        if at != end:
            raise IndexError("a row ends past the end of its packets")
        return found
