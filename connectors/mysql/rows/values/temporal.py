"""Dates and times, in the current format and in that of tables made before MySQL 5.6.4.

Invariant: the text has exactly the column's digits of fraction, and an invalid date (zero, partial,
impossible) is kept as MySQL writes it.
Source: MySQL's mysys/my_time.cc, my_time_packed_from_binary and related functions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from connectors.mysql.binlog.buffer import read_bytes, uint
from connectors.mysql.binlog.table_map import MappedColumn
from connectors.mysql.rows.values.shape import Reader
from connectors.mysql.value_text.temporal import datetime_text, fraction_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_TIMESTAMP = "0000-00-00 00:00:00"


def date(_column: MappedColumn) -> Reader:
    """DATE: three bytes; 5 bits of day, 4 of month, 15 of year."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = uint(data, at, 3)
        return f"{value >> 9:04d}-{(value >> 5) & 15:02d}-{value & 31:02d}", at + 3

    return read


def _fraction_size(digits: int) -> int:
    return (digits + 1) // 2


def _microseconds(raw: bytes) -> int:
    return int.from_bytes(raw, "big") * (1, 10_000, 100, 1)[len(raw)]


def datetime2(column: MappedColumn) -> Reader:
    """DATETIME(n): 40 bits: years and months as one number, day, hour, minute, second; then the fraction."""
    digits = column.metadata
    size = 5 + _fraction_size(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        packed = int.from_bytes(raw[:5], "big") - 0x80_0000_0000
        days, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(days >> 5, 13)
        hms = (clock >> 12, (clock >> 6) & 63, clock & 63)
        fraction = fraction_text(_microseconds(raw[5:]), digits)
        return datetime_text((year, month, days & 31), hms, fraction), end

    return read


def timestamp2(column: MappedColumn) -> Reader:
    """TIMESTAMP(n): seconds since 1970 in UTC, big-endian, then the fraction; all zero is the
    zero timestamp."""
    digits = column.metadata
    size = 4 + _fraction_size(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        seconds, micros = int.from_bytes(raw[:4], "big"), _microseconds(raw[4:])
        return timestamp_text(seconds, fraction_text(micros, digits)), end

    return read


def timestamp_text(seconds: int, fraction: str) -> str:
    """ISO text in UTC; MySQL's own text for its zero timestamp."""
    if not seconds:
        return ZERO_TIMESTAMP + fraction
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def time2(column: MappedColumn) -> Reader:
    """TIME(n): 24 bits biased by half their range, then the fraction; a negative time borrows from it."""
    digits = column.metadata
    fraction_size = _fraction_size(digits)
    size, bias = 3 + fraction_size, 0x80_0000 << (8 * fraction_size)
    to_microseconds = (1, 10_000, 100, 1)[fraction_size]

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, size)
        # Whole and fraction are one signed number, so both are right in its magnitude.
        value = int.from_bytes(raw, "big") - bias
        clock, part = divmod(abs(value), 1 << (8 * fraction_size))
        sign = "-" if value < 0 else ""
        return sign + _clock_text(clock, fraction_text(part * to_microseconds, digits)), end

    return read


def _clock_text(clock: int, fraction: str) -> str:
    return f"{(clock >> 12) & 1023:02d}:{(clock >> 6) & 63:02d}:{clock & 63:02d}{fraction}"


def old_datetime(_column: MappedColumn) -> Reader:
    """DATETIME before 5.6.4: eight bytes, the decimal number YYYYMMDDhhmmss."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        days, clock = divmod(uint(data, at, 8), 1_000_000)
        ymd = (days // 10_000, days // 100 % 100, days % 100)
        return datetime_text(ymd, (clock // 10_000, clock // 100 % 100, clock % 100), ""), at + 8

    return read


def old_timestamp(_column: MappedColumn) -> Reader:
    """TIMESTAMP before 5.6.4: seconds since 1970, little-endian."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        return timestamp_text(uint(data, at, 4), ""), at + 4

    return read


def old_time(_column: MappedColumn) -> Reader:
    """TIME before 5.6.4: three bytes, the signed decimal number hhmmss."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at, 3)
        value = int.from_bytes(raw, "little", signed=True)
        sign, value = ("-" if value < 0 else ""), abs(value)
        return f"{sign}{value // 10_000:02d}:{value // 100 % 100:02d}:{value % 100:02d}", end

    return read
