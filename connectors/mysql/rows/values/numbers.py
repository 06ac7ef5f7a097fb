"""Integers, floats, decimals, bits and years.

Invariant: a number on the wire is exactly the number in the table: integers whole, DECIMAL as text
with its scale, FLOAT as the shortest number that is the same 32-bit float.
Source for DECIMAL: MySQL's strings/decimal.cc, decimal2bin.
"""

from __future__ import annotations

import base64
import struct
from math import isfinite

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.buffer import read_bytes
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.rows.values.shape import Reader
from connectors.mysql.value_text.floats import shortest_float32

_WIDTHS = {
    FieldType.TINY: 1,
    FieldType.SHORT: 2,
    FieldType.INT24: 3,
    FieldType.LONG: 4,
    FieldType.LONGLONG: 8,
}


def integer(column: MappedColumn) -> Reader:
    """TINYINT to BIGINT; raises UnsupportedEvent if the table map does not contain signedness."""
    if column.unsigned is None:
        raise UnsupportedEvent(
            f"the binlog does not state whether column {column.name!r} is unsigned",
            remedy="Upgrade the server, or leave the table out with a filter.",
        )
    width, signed = _WIDTHS[FieldType(column.type)], not column.unsigned

    def read(data: bytes, at: int) -> tuple[int, int]:
        raw, end = read_bytes(data, at, width)
        return int.from_bytes(raw, "little", signed=signed), end

    return read


def year(_column: MappedColumn) -> Reader:
    """YEAR: one byte, years since 1900; 0 is the year 0."""

    def read(data: bytes, at: int) -> tuple[int, int]:
        return (1900 + data[at] if data[at] else 0), at + 1

    return read


def float32(_column: MappedColumn) -> Reader:
    """FLOAT, as the shortest number that is the same 32-bit float."""

    def read(data: bytes, at: int) -> tuple[float, int]:
        raw, end = read_bytes(data, at, 4)
        return shortest_float32(raw), end

    return read


_DOUBLE = struct.Struct("<d")


def float64(_column: MappedColumn) -> Reader:
    """DOUBLE."""

    def read(data: bytes, at: int) -> tuple[float, int]:
        raw, end = read_bytes(data, at, 8)
        value: float = _DOUBLE.unpack(raw)[0]
        if not isfinite(value):
            raise ValueError(f"a DOUBLE that is {value}")
        return value, end

    return read


_DIGITS_PER_WORD = 9
_BYTES_FOR = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes for a group of that many decimal digits."""


def decimal(column: MappedColumn) -> Reader:
    """DECIMAL(precision, scale) as text with the column's scale."""
    groups, whole_groups = decimal_groups(column.metadata & 0xFF, column.metadata >> 8)
    size = sum(width for width, _ in groups)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        return decimal_text(raw, groups, whole_groups), end

    return read


def decimal_text(raw: bytes, groups: list[tuple[int, int]], whole_groups: int) -> str:
    """The digits of a packed decimal; ``groups`` are (bytes, digits), the first ones before the point.

    The sign is the first bit, inverted; a negative number has all its bits inverted.
    """
    negative = not raw[0] & 0x80
    first = raw[0] ^ 0x80
    data = bytes([first]) + raw[1:]
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    parts, at = [], 0
    for width, digits in groups:
        part = f"{int.from_bytes(data[at : at + width], 'big'):0{digits}d}"
        if len(part) > digits:
            raise ValueError(f"{part} are no {digits} digits of a DECIMAL")
        parts.append(part)
        at += width
    whole = "".join(parts[:whole_groups]).lstrip("0") or "0"
    fraction = "".join(parts[whole_groups:])
    text = f"{whole}.{fraction}" if fraction else whole
    return f"-{text}" if negative else text


def decimal_groups(precision: int, scale: int) -> tuple[list[tuple[int, int]], int]:
    """The groups of a DECIMAL(precision, scale), and the number of groups before the point."""
    lead, words = (precision - scale) % _DIGITS_PER_WORD, (precision - scale) // _DIGITS_PER_WORD
    fraction_words, tail = divmod(scale, _DIGITS_PER_WORD)
    whole = ([(_BYTES_FOR[lead], lead)] if lead else []) + [(4, _DIGITS_PER_WORD)] * words
    part = [(4, _DIGITS_PER_WORD)] * fraction_words + ([(_BYTES_FOR[tail], tail)] if tail else [])
    return whole + part, len(whole)


def bit(column: MappedColumn) -> Reader:
    """BIT(n): base64 of its bytes, most significant first."""
    size = (column.metadata >> 8) + (1 if column.metadata & 0xFF else 0)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        return base64.b64encode(raw).decode(), end

    return read
