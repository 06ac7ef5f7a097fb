"""The times of reads whose rows are not published yet, for a merge that orders rows by time.

An existing row has the time of its SELECT, by the source's clock. Later changes may be published before the
row, since its chunk waits for its position in the stream.

Invariant: from before a SELECT asks for its time until its rows are published, the destination is never stated
to be complete up to a later time. So a merge releases no record of another destination that must come after
these rows.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

_CLOCK = "SELECT CAST(1000 * UNIX_TIMESTAMP(NOW(3)) AS UNSIGNED)"


class ReadTimes:
    """The times of one run's reads; a read may begin in any thread."""

    def __init__(self, *, is_merged: bool = False) -> None:
        """``is_merged``: whether a merge waits for this destination; if not, the worker's clock is used."""
        self.is_merged = is_merged
        self._numbers = count(1)
        self._times: dict[int, int | None] = {}
        """The time of each open read; None while it is being queried."""
        self._stated = 0

    def begin(self) -> int:
        """Begin a read and return its number; no time is stated until the read has its time."""
        number = next(self._numbers)
        self._times[number] = None
        return number

    def set(self, number: int, time_ms: int) -> None:
        """Set the time of a read; no later time is stated until the read ends."""
        self._times[number] = time_ms

    def end(self, number: int) -> None:
        """End a read, whose rows are published or dropped."""
        self._times.pop(number, None)

    def stated(self, time_ms: int) -> int | None:
        """Return the time to state if all commits before ``time_ms`` are published; None: state no time."""
        open_ = list(self._times.values())
        found = [one for one in open_ if one is not None]
        if len(found) < len(open_):
            return None
        least = min([time_ms, *found])
        self._stated = max(self._stated, least)
        return least

    def now(self) -> int:
        """Return a time that is not before any stated time, for a record without a SELECT."""
        return max(self._stated, time.time_ns() // 1_000_000)


class LaneTimes:
    """The reads of one table, one after the other; see ReadClock."""

    def __init__(self, times: ReadTimes) -> None:
        self._times = times
        self._current: int | None = None
        """The read whose rows are not handed in yet."""

    def asked(self, cursor: Any) -> int:
        if not self._times.is_merged:
            return time.time_ns() // 1_000_000
        self.drop()
        self._current = number = self._times.begin()
        cursor.execute(_CLOCK)
        time_ms = int(cursor.fetchone()[0])
        self._times.set(number, time_ms)
        return time_ms

    def without_select(self) -> int:
        """Return the time of a record that stands for rows, without a SELECT."""
        self._current = number = self._times.begin()
        time_ms = self._times.now()
        self._times.set(number, time_ms)
        return time_ms

    def drop(self) -> None:
        if self._current is not None:
            self._times.end(self._current)
        self._current = None

    def hand_in(self) -> int | None:
        """Return the number of the read, whose rows are handed in now; ``publish`` ends it."""
        number, self._current = self._current, None
        return number

    def publish(self, number: int | None) -> None:
        """End a read whose rows are published or refused."""
        if number is not None:
            self._times.end(number)
