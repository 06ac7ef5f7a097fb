"""Dates and times as text, assembled from cached parts.

Invariant: the text is that of ``values.temporal``. A second's text is made once, since successive
rows share few seconds, from its hour's text; fractions come from tables. The caches are bounded,
and shared by all tables: a time's text does not depend on the column.
"""

from __future__ import annotations

from connectors.mysql.rows.values.temporal import timestamp_text
from connectors.mysql.value_text.temporal import datetime_text

_MOST = 10_000
_MINUTES_AND_SECONDS = [f"{n >> 6:02d}:{n & 63:02d}" for n in range(4096)]
"""Text by the 12 bits in which DATETIME packs minutes and seconds."""
_OF_AN_HOUR = [f"{n // 60:02d}:{n % 60:02d}" for n in range(3600)]
_DATETIME_BIAS = 0x80_0000_0000 >> 12

TWO = [f"{n:02d}" for n in range(100)]
THREE = [f"{n:03d}" for n in range(1000)]
"""Numbers with leading zeros: three digits at a time are formatted faster than six."""


class _Dates(dict[bytes, str]):
    """Text by the three bytes of a DATE."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) > _MOST:
            self.clear()
        value = int.from_bytes(raw, "little")
        text = self[raw] = f"{value >> 9:04d}-{(value >> 5) & 15:02d}-{value & 31:02d}"
        return text


class _DatetimeHours(dict[int, str]):
    """``2026-11-21T10:`` by the bits of DATETIME before the minutes."""

    def __missing__(self, packed: int) -> str:
        if len(self) > _MOST:
            self.clear()
        days, hour = divmod(packed - _DATETIME_BIAS, 32)
        year, month = divmod(days >> 5, 13)
        text = self[packed] = datetime_text((year, month, days & 31), (hour, 0, 0), "")[:-5]
        return text


class _Datetimes(dict[bytes, str]):
    """Whole seconds by the first five bytes of a DATETIME."""

    def __init__(self) -> None:
        super().__init__()
        self._hours = _DatetimeHours()

    def __missing__(self, raw: bytes) -> str:
        if len(self) > _MOST:
            self.clear()
        clock = int.from_bytes(raw, "big")
        text = self[raw] = self._hours[clock >> 12] + _MINUTES_AND_SECONDS[clock & 4095]
        return text


class _TimestampHours(dict[int, str]):
    """``2026-11-21T10:`` by hours since 1970."""

    def __missing__(self, hours: int) -> str:
        if len(self) > _MOST:
            self.clear()
        # The zero timestamp is not one of this hour's seconds, so the text of another second is used.
        text = self[hours] = timestamp_text(hours * 3600 + 1, "")[:-6]
        return text


class _Timestamps(dict[int, str]):
    """Whole seconds, without their Z, by the first four bytes of a TIMESTAMP read in reverse byte order."""

    def __init__(self) -> None:
        super().__init__()
        self._hours = _TimestampHours()

    def __missing__(self, swapped: int) -> str:
        if len(self) > _MOST:
            self.clear()
        hour, second = divmod(int.from_bytes(swapped.to_bytes(4, "little"), "big"), 3600)
        text = self[swapped] = self._hours[hour] + _OF_AN_HOUR[second]
        return text


class _Fractions(dict[int, str]):
    """``.123`` by the two bytes of a fraction of 3 or 4 digits read in reverse byte order."""

    def __init__(self, digits: int) -> None:
        super().__init__()
        self._digits = digits

    def __missing__(self, swapped: int) -> str:
        number = (swapped & 0xFF) << 8 | swapped >> 8
        if number > _MOST_OF_FOUR:
            raise IndexError(f"{number} is no fraction of four digits")
        text = self[swapped] = f".{number:04d}"[: self._digits + 1]
        return text


_MOST_OF_FOUR = 9999

DATES = _Dates()
DATETIMES = _Datetimes()
TIMESTAMPS = _Timestamps()
TENTHS = [f".{n:02d}"[:2] for n in range(100)]
HUNDREDTHS = [f".{n:02d}" for n in range(100)]
THOUSANDTHS = _Fractions(3)
TEN_THOUSANDTHS = _Fractions(4)

_SMALL = {1: "tenths", 2: "hundredths", 3: "thousandths", 4: "ten_thousandths"}
NAMES = {
    "dates": DATES,
    "datetimes": DATETIMES,
    "timestamps": TIMESTAMPS,
    "tenths": TENTHS,
    "hundredths": HUNDREDTHS,
    "thousandths": THOUSANDTHS,
    "ten_thousandths": TEN_THOUSANDTHS,
    "two": TWO,
    "three": THREE,
    "from_bytes": int.from_bytes,
}
"""The names that expressions refer to."""


def fraction(digits: int) -> tuple[str, str]:
    """The format (of struct, little-endian) of a fraction's bytes, and the part of an f-string over ``$b``."""
    if not digits:
        return "", ""
    if digits in _SMALL:
        return "B" if digits < 3 else "H", f"{{{_SMALL[digits]}[$b]}}"
    rest = "{three[f % 1000]}" if digits == 6 else "{two[f % 1000 // 10]}"
    return "3s", f'.{{three[(f := from_bytes($b, "big")) // 1000]}}{rest}'
