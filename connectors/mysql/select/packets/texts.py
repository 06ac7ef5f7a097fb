"""Rows of packets as the text protocol has them: for keys in SQL, and for rows that take the long way.

Invariant: a text has all of its value's bits, and is in the form that ``snapshot/encoders`` expects.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from connectors.mysql.binlog.buffer import packed_bytes, read_bytes, uint
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.select.encoders.generate import Row
from connectors.mysql.select.packets.layout import FIRST_BIT, FIXED, HEAD_SIZE, bitmap_size
from connectors.mysql.value_text.temporal import fraction_text

_T = FieldType
_LONGEST = 0xFF_FFFF
"""The length in the head of a row that came in several packets, put together."""
_Three = tuple[int, int, int]
_Text = Callable[[bytes], bytes]


def moment_of(raw: bytes) -> tuple[_Three, _Three, int]:
    """Date, time of day and microseconds of a value of 0, 4, 7 or 11 bytes: zeros at its end are omitted."""
    if len(raw) not in (0, 4, 7, 11):
        raise ValueError(f"{len(raw)} bytes are no date and time")
    year, month, day, hour, minute, second, micros = struct.unpack("<H5BI", raw.ljust(11, b"\0"))
    return (year, month, day), (hour, minute, second), micros


def date_text(raw: bytes) -> bytes:
    """The text of a DATE."""
    ymd, hms, micros = moment_of(raw)
    if any(hms) or micros:
        raise ValueError("a date has a time of day")
    return b"%04d-%02d-%02d" % ymd


def clock_text(raw: bytes, digits: int) -> bytes:
    """The text of a TIME, of 0, 8 or 12 bytes."""
    if len(raw) not in (0, 8, 12):
        raise ValueError(f"{len(raw)} bytes are no time")
    negative, days, hour, minute, second, micros = struct.unpack("<BI3BI", raw.ljust(12, b"\0"))
    clock = b"%02d:%02d:%02d" % (24 * days + hour, minute, second)
    return b"%s%s%s" % (b"-" if negative else b"", clock, fraction_text(micros, digits).encode())


class PacketTexts:
    """Reads the rows of packets of one table."""

    def __init__(self, columns: Sequence[MappedColumn]) -> None:
        self._columns = [(FIXED.get(one.type, 0), _text_of(one)) for one in columns]

    def rows(self, packets: bytes) -> Iterator[Row]:
        """The rows of packets; raises an error of Python's for bytes of another form."""
        at = 0
        while at < len(packets):
            size = uint(packets, at, 3)
            row, end = self._row(packets, at)
            if size != _LONGEST and end != at + 4 + size:
                raise ValueError(f"a row has {size} bytes, of which {end - at - 4} are its values")
            yield row
            at = end

    def _row(self, packets: bytes, at: int) -> tuple[Row, int]:
        size = bitmap_size(len(self._columns))
        bits, at = read_bytes(packets, at + HEAD_SIZE, size)
        nulls = int.from_bytes(bits, "little") >> FIRST_BIT
        values: list[bytes | None] = []
        for n, (fixed, text) in enumerate(self._columns):
            if nulls >> n & 1:
                values.append(None)
                continue
            raw, at = read_bytes(packets, at, fixed) if fixed else packed_bytes(packets, at)
            values.append(text(raw))
        return tuple(values), at


def _text_of(column: MappedColumn) -> _Text:
    digits = column.metadata
    if column.type in _INTEGERS:
        signed = _INTEGERS[column.type] and not column.unsigned
        return lambda raw: b"%d" % int.from_bytes(raw, "little", signed=signed)
    if column.type in (_T.DATETIME2, _T.TIMESTAMP2):
        return lambda raw: _moment_text(raw, digits)
    if column.type == _T.TIME2:
        return lambda raw: clock_text(raw, digits)
    return _TEXTS.get(column.type, bytes)


def _moment_text(raw: bytes, digits: int) -> bytes:
    ymd, hms, micros = moment_of(raw)
    clock = b"%02d:%02d:%02d" % hms
    return b"%04d-%02d-%02d %s%s" % (*ymd, clock, fraction_text(micros, digits).encode())


def _float_text(form: str) -> _Text:
    unpack = struct.Struct(form).unpack
    return lambda raw: repr(unpack(raw)[0]).encode()


_INTEGERS: dict[int, bool] = {
    _T.TINY: True, _T.SHORT: True, _T.INT24: True, _T.LONG: True, _T.LONGLONG: True,
    # As the SELECT list casts them.
    _T.ENUM: False, _T.SET: False,
}  # fmt: skip
"""Whether a type of numbers has a sign, unless it is UNSIGNED."""
_TEXTS: dict[int, _Text] = {
    _T.YEAR: lambda raw: b"%04d" % int.from_bytes(raw, "little"),
    _T.FLOAT: _float_text("<f"),
    _T.DOUBLE: _float_text("<d"),
    _T.DATE: date_text,
}
