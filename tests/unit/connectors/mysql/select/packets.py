"""Packets as a server sends them for rows whose values are given as text."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from connectors.mysql.select.packets import FIRST_BIT, bitmap_size
from connectors.mysql.types.registry import FieldType, MappedColumn, binlog_type

_T = FieldType
_LONGEST = 0xFF_FFFF
_WHOLE = {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR, _T.ENUM, _T.SET}
Row = Sequence[bytes | None]


def packets_of(columns: Sequence[MappedColumn], rows: Sequence[Row]) -> bytes:
    """The packets of rows; one of 16 MiB and more has one head, as PreparedSelect makes it."""
    found = []
    for number, row in enumerate(rows):
        body = body_of(columns, row)
        size = min(len(body), _LONGEST)
        found.append(size.to_bytes(3, "little") + bytes([number % 256]) + body)
    return b"".join(found)


def body_of(columns: Sequence[MappedColumn], row: Row) -> bytes:
    """The body of a row's packet."""
    nulls = sum(1 << n + FIRST_BIT for n, value in enumerate(row) if value is None)
    pairs = zip(columns, row, strict=True)
    values = [_value(column, value) for column, value in pairs if value is not None]
    return b"".join((b"\0", nulls.to_bytes(bitmap_size(len(columns)), "little"), *values))


def _value(column: MappedColumn, text: bytes) -> bytes:
    kind = column.type
    if kind in _WHOLE:
        known = binlog_type(kind)
        assert known is not None
        return (int(text) & (1 << 64) - 1).to_bytes(8, "little")[: known.packet_size]
    if kind in (_T.FLOAT, _T.DOUBLE):
        return struct.pack("<f" if kind == _T.FLOAT else "<d", float(text))
    if kind in (_T.DATE, _T.DATETIME2, _T.TIMESTAMP2):
        return _moment(text)
    if kind == _T.TIME2:
        return _clock(text)
    return length(len(text)) + text


def _moment(text: bytes) -> bytes:
    year, month, day, *rest = (int(one) for one in re.findall(rb"\d+", text)[:6])
    hour, minute, second = rest or (0, 0, 0)
    raw = struct.pack("<H5BI", year, month, day, hour, minute, second, _micros(text))
    return _shortest(raw, (0, 4, 7, 11))


def _clock(text: bytes) -> bytes:
    hours, minute, second = (int(one) for one in re.findall(rb"\d+", text)[:3])
    days, hour = divmod(hours, 24)
    raw = struct.pack("<BI3BI", text.startswith(b"-"), days, hour, minute, second, _micros(text))
    return _shortest(raw, (0, 8, 12))


def _micros(text: bytes) -> int:
    _, _, digits = text.partition(b".")
    return int(digits.ljust(6, b"0"))


def _shortest(raw: bytes, sizes: Sequence[int]) -> bytes:
    """The value without the zeros at its end, as far as a size allows."""
    size = next(size for size in sizes if not any(raw[size:]))
    return bytes([size]) + raw[:size]


def length(size: int) -> bytes:
    """A length-encoded integer."""
    if size < 251:
        return bytes([size])
    for first, count in ((0xFC, 2), (0xFD, 3)):
        if size < 1 << 8 * count:
            return bytes([first]) + size.to_bytes(count, "little")
    return b"\xfe" + size.to_bytes(8, "little")
