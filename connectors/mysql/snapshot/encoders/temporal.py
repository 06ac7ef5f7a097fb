"""Dates and times from text.

Invariant: text that is not exactly in MySQL's form raises ValueError. The caches are bounded, and shared by all
tables: successive rows have few dates and seconds.
Source: MySQL's mysys/my_time.cc, my_datetime_packed_to_binary and related functions.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable
from datetime import UTC, datetime

_MOST = 10_000
_DATE = re.compile(rb"(\d{4})-(\d\d)-(\d\d)")
_SECOND = re.compile(rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_CLOCK = re.compile(rb"(-?)(\d{2,3}):(\d\d):(\d\d)((?:\.\d+)?)")
_ZERO = b"0000-00-00 00:00:00"
_DATETIME_BIAS = 1 << 39
_LAST_TIMESTAMP = (1 << 32) - 1


class Remembered(dict[bytes, bytes]):
    """Encoded values by their text, made on first use; cleared when there are too many."""

    def __init__(self, make: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: bytes) -> bytes:
        if len(self) >= _MOST:
            self.clear()
        value = self[text] = self._make(text)
        return value


def _numbers(pattern: re.Pattern[bytes], text: bytes) -> tuple[int, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError("no date or time in MySQL's form")
    return tuple(map(int, found.groups()))


def _days(year: int, month: int, day: int) -> int:
    return (year * 13 + month) << 5 | day


def _date(text: bytes) -> bytes:
    year, month, day = _numbers(_DATE, text)
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def _datetime(text: bytes) -> bytes:
    year, month, day, hour, minute, second = _numbers(_SECOND, text)
    clock = hour << 12 | minute << 6 | second
    return (_DATETIME_BIAS + (_days(year, month, day) << 17 | clock)).to_bytes(5, "big")


def _timestamp(text: bytes) -> bytes:
    if text == _ZERO:
        return bytes(4)
    seconds = timegm(datetime(*_numbers(_SECOND, text), tzinfo=UTC).timetuple())  # type: ignore[arg-type, misc]
    if not 0 < seconds <= _LAST_TIMESTAMP:
        raise ValueError("no TIMESTAMP")
    return seconds.to_bytes(4, "big")


DATES = Remembered(_date)
"""The bytes of a DATE by its text."""
DATETIMES = Remembered(_datetime)
"""The first five bytes of a DATETIME by its text up to the seconds."""
TIMESTAMPS = Remembered(_timestamp)
"""The first four bytes of a TIMESTAMP by its text in UTC up to the seconds."""


def fraction_size(digits: int) -> int:
    """Bytes of a fraction of that many digits."""
    return (digits + 1) // 2


def fraction(digits: int) -> Callable[[bytes], bytes]:
    """The function from a fraction such as ``.123`` to its bytes."""
    size, scale = fraction_size(digits), 10 if digits % 2 else 1

    def encode(text: bytes) -> bytes:
        if len(text) != digits + 1 or text[:1] != b".":
            raise ValueError(f"no fraction of {digits} digits")
        return (int(text[1:]) * scale).to_bytes(size, "big")

    return encode


def time(digits: int) -> Callable[[bytes], bytes]:
    """The function from the text of a TIME(digits) to its bytes."""
    size = fraction_size(digits)
    bias = 0x80_0000 << (8 * size)
    encode_fraction = fraction(digits) if digits else None

    def encode(text: bytes) -> bytes:
        found = _CLOCK.fullmatch(text)
        if found is None:
            raise ValueError("no TIME in MySQL's form")
        sign, hour, minute, second, part = found.groups()
        magnitude = int(hour) << 12 | int(minute) << 6 | int(second)
        if encode_fraction is not None:
            magnitude = magnitude << (8 * size) | int.from_bytes(encode_fraction(part), "big")
        elif part:
            raise ValueError("a fraction that the column does not have")
        return (bias - magnitude if sign else bias + magnitude).to_bytes(3 + size, "big")

    return encode
