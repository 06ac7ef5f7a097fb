"""A moment of the source, at which a cut is asked for: a transaction, a change, or a time.

Invariant: a text has exactly one meaning; a time without a time zone is refused.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

from spark_sink.errors import CutAmbiguous

_NUMBER: Final = re.compile(r"(.+)@(\d+)")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, by its GTID or other id (`transaction.id` of docs/wire.md)."""

    id: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a destination, by its `source.seq`."""

    destination: str
    seq: int


@dataclass(frozen=True, slots=True)
class Time:
    """A time of commits at the source, in milliseconds since 1970 UTC."""

    ms: int


Moment = Transaction | Change | Time


def moment(at: str | datetime.datetime | tuple[str, int]) -> Moment:
    """The moment that a reader names: a GTID, a time, `(destination, seq)` or `destination@seq`.

    Times are ISO 8601 with a time zone. Raise CutAmbiguous.
    """
    if isinstance(at, tuple):
        return Change(*at)
    if isinstance(at, str) and (found := _NUMBER.fullmatch(at.strip())):
        return Change(found[1], int(found[2]))
    if isinstance(at, str) and not _DAY.fullmatch(at.strip()):
        return Transaction(at.strip())
    try:
        time = datetime.datetime.fromisoformat(at.strip()) if isinstance(at, str) else at
    except ValueError as fault:
        raise CutAmbiguous(str(at), advice="Write a time as 2026-11-22T15:02:11Z") from fault
    if time.tzinfo is None:
        raise CutAmbiguous(f"{at} has no time zone", advice="Append Z or an offset such as +01:00")
    return Time(round(time.timestamp() * 1000))
