"""Dates and times from text.

Invariant: text that is not exactly in MySQL's form raises ValueError or KeyError. The caches are
bounded, and shared by all tables: rows have few dates and hours.
Source: MySQL's mysys/my_time.cc, my_datetime_packed_to_binary and related functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_MOST = 10_000
_DATE = re.compile(rb"(\d{4})-(\d\d)-(\d\d)")
_HOUR = re.compile(rb"(\d{4})-(\d\d)-(\d\d) (\d\d)")
_CLOCK = re.compile(rb"(-?)(\d{2,3}):(\d\d):(\d\d)((?:\.\d+)?)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATETIME_BIAS = 1 << 39
_LAST_TIMESTAMP = (1 << 32) - 1


class Remembered(dict[bytes, Any]):
    """Values by their text, made on first use; cleared when there are too many."""

    def __init__(self, make: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: bytes) -> Any:
        if len(self) >= _MOST:
            self.clear()
        value = self[text] = self._make(text)
        return value


def _numbers(pattern: re.Pattern[bytes], text: bytes) -> list[int]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError("no date or time in MySQL's form")
    return list(map(int, found.groups()))


def _date(text: bytes) -> bytes:
    year, month, day = _numbers(_DATE, text)
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def _datetime_hour(text: bytes) -> int:
    year, month, day, hour = _numbers(_HOUR, text)
    return _DATETIME_BIAS + (((year * 13 + month) << 5 | day) << 17 | hour << 12)


def _timestamp_hour(text: bytes) -> int:
    year, month, day, hour = _numbers(_HOUR, text)
    if not year:
        # Only the zero timestamp has this year; a month of it would be an error of datetime's.
        return 0 if month == day == hour == 0 else _refused()
    seconds = int((datetime(year, month, day, hour, tzinfo=UTC) - _EPOCH).total_seconds())
    return seconds if 0 <= seconds <= _LAST_TIMESTAMP else _refused()


def _refused() -> int:
    raise ValueError("no TIMESTAMP")


_CLOCKS = [(b":%02d:%02d" % (n // 60, n % 60), n // 60, n % 60) for n in range(3600)]

DATES = Remembered(_date)
"""The bytes of a DATE by its text."""
DATETIME_HOURS = Remembered(_datetime_hour)
"""The bits of a DATETIME by its text up to the hour, ``2026-11-21 10``."""
DATETIME_CLOCKS = {text: minute << 6 | second for text, minute, second in _CLOCKS}
"""The further bits by the rest of the text, ``:15:00``."""
TIMESTAMP_HOURS = Remembered(_timestamp_hour)
"""The seconds of a TIMESTAMP by its text in UTC up to the hour."""
TIMESTAMP_CLOCKS = {text: 60 * minute + second for text, minute, second in _CLOCKS}
"""The further seconds by the rest of the text."""


def fraction_size(digits: int) -> int:
    """Bytes of a fraction of that many digits."""
    return (digits + 1) // 2


def fraction_scale(digits: int) -> int:
    """What a number of that many digits is multiplied by: bytes have an even number of digits."""
    return 10 if digits % 2 else 1


def time(digits: int) -> Callable[[bytes], bytes]:
    """The function from the text of a TIME(digits) to its bytes."""
    size = fraction_size(digits)
    bias, scale = 0x80_0000 << (8 * size), fraction_scale(digits)
    part_size = digits + 1 if digits else 0

    def encode(text: bytes) -> bytes:
        found = _CLOCK.fullmatch(text)
        if found is None or len(found[5]) != part_size:
            raise ValueError("no TIME in the column's form")
        sign, hour, minute, second, part = found.groups()
        magnitude = int(hour) << 12 | int(minute) << 6 | int(second)
        if part:
            magnitude = magnitude << (8 * size) | int(part[1:]) * scale
        return (bias - magnitude if sign else bias + magnitude).to_bytes(3 + size, "big")

    return encode
