"""Dates and times to JSON text, by parts that are remembered.

The law: the text is that of ``values.temporal``. An hour's text is made once, minutes and seconds stand in a
table, so that most rows cost two lookups.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.mysql.values.temporal import (
    ZERO_TIMESTAMP,
    datetime_text,
    fraction_text,
    timestamp_text,
)

_MOST = 20_000
_MINUTES_AND_SECONDS = [f"{n >> 6:02d}:{n & 63:02d}" for n in range(4096)]
"""By the 12 bits that DATETIME packs them in."""
_OF_AN_HOUR = [f"{n // 60:02d}:{n % 60:02d}" for n in range(3600)]
_DATETIME_BIAS = 0x80_0000_0000 >> 12


class Dates(dict[bytes, str]):
    """JSON text of DATE by its three bytes."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) > _MOST:
            self.clear()
        value = int.from_bytes(raw, "little")
        text = self[raw] = f'"{value >> 9:04d}-{(value >> 5) & 15:02d}-{value & 31:02d}"'
        return text


class _DatetimeHours(dict[int, str]):
    """``"2026-11-21T10:`` by what DATETIME packs before the minutes."""

    def __missing__(self, packed: int) -> str:
        if len(self) > _MOST:
            self.clear()
        days, hour = divmod(packed - _DATETIME_BIAS, 32)
        year, month = divmod(days >> 5, 13)
        text = self[packed] = f'"{datetime_text((year, month, days & 31), (hour, 0, 0), "")[:-5]}'
        return text


class _TimestampHours(dict[int, str]):
    """``"2026-11-21T10:`` by hours since 1970."""

    def __missing__(self, hours: int) -> str:
        if len(self) > _MOST:
            self.clear()
        # The zero timestamp is not of this hour's seconds, so any second of it will do.
        text = self[hours] = f'"{timestamp_text(hours * 3600 + 1, "")[:-6]}'
        return text


def _fractions(digits: int, end: str) -> tuple[int, Callable[[int], str]]:
    """Bytes of a fraction, and the function from its number to the text that ends the value."""
    size = (digits + 1) // 2
    scale = (1, 10_000, 100, 1)[size]
    if size == 3:
        return size, lambda n: f".{n:06d}"[: digits + 1] + end
    texts = [fraction_text(n * scale, digits) + end for n in range(100**size)]
    return size, texts.__getitem__


def datetime_json(digits: int) -> Callable[[bytes], str]:
    """The function from the bytes of a DATETIME(digits) to a JSON string."""
    hours, minutes = _DatetimeHours(), _MINUTES_AND_SECONDS
    size, fraction = _fractions(digits, '"')
    shift, mask = 8 * size, (1 << (8 * size)) - 1

    def text(raw: bytes) -> str:
        number = int.from_bytes(raw, "big")
        clock = number >> shift
        return hours[clock >> 12] + minutes[clock & 4095] + fraction(number & mask)

    return text


def timestamp_json(digits: int) -> Callable[[bytes], str]:
    """The function from the bytes of a TIMESTAMP(digits) to a JSON string."""
    hours, seconds = _TimestampHours(), _OF_AN_HOUR
    size, fraction = _fractions(digits, 'Z"')
    shift, mask = 8 * size, (1 << (8 * size)) - 1
    _, zero_fraction = _fractions(digits, '"')

    def text(raw: bytes) -> str:
        number = int.from_bytes(raw, "big")
        clock = number >> shift
        if not clock:
            return f'"{ZERO_TIMESTAMP}{zero_fraction(number & mask)}'
        hour, second = divmod(clock, 3600)
        return hours[hour] + seconds[second] + fraction(number & mask)

    return text
