"""Dates and times as text.

Invariant: the text has exactly the column's digits of fraction, and an invalid date (zero, partial,
impossible) is kept as MySQL writes it.
"""

from __future__ import annotations


def datetime_text(ymd: tuple[int, int, int], hms: tuple[int, int, int], fraction: str) -> str:
    """ISO text, or MySQL's own text for an invalid date: month or day 0, or a day past the month's end."""
    year, month, day = ymd
    hour, minute, second = hms
    joint = "T" if _is_date(year, month, day) else " "
    return f"{year:04d}-{month:02d}-{day:02d}{joint}{hour:02d}:{minute:02d}:{second:02d}{fraction}"


def _is_date(year: int, month: int, day: int) -> bool:
    if month != _FEBRUARY:
        return 0 < day <= _DAYS[month] if 0 < month < len(_DAYS) else False
    # To MySQL the year 0 is no leap year.
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) and year > 0
    return 0 < day <= _DAYS[month] + is_leap


_FEBRUARY = 2
_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def fraction_text(microseconds: int, digits: int) -> str:
    """``.123`` for 123000 microseconds and 3 digits, the empty text for none."""
    if microseconds >= _SECOND:
        raise ValueError(f"{microseconds} microseconds are no fraction of a second")
    return f".{microseconds:06d}"[: digits + 1] if digits else ""


_SECOND = 1_000_000
