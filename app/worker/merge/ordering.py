"""The order of one partition of a merged topic: the records of its shards, by the time of their commit.

Invariant: records of one shard keep their order, whatever their times are, and each is released once. A record
is released when no shard that is waited for can still have an earlier one; or when the record has waited long
enough, and everything that Kafka received meanwhile is read. The idea is the timeline barrier of Canal's
GroupEventSink. Canal inserts heartbeats between events; here each shard has a time up to which it is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

Headers = list[tuple[str, bytes]]

_RECORD_BYTES, _HEADER_BYTES = 352, 160
"""Bytes of memory that a record and each of its headers take, in addition to their contents."""


class Held(NamedTuple):
    """A record that was read and not yet released."""

    time_ms: int
    """The commit time at the source, but not before the time of the shard's previous record."""
    read_at: float
    """When it was read, in seconds of the monotonic clock."""
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def bytes(self) -> int:
        """Bytes of its key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def memory(self) -> int:
        """Approximate bytes of memory that it takes; for a tombstone, forty times the size of its key."""
        headers = sum(_HEADER_BYTES + len(name) + len(value) for name, value in self.headers)
        return _RECORD_BYTES + self.bytes + headers


class Lane:
    """One shard's records of one partition."""

    __slots__ = ("_last_ms", "_reached_ms", "memory", "read_as_of", "records", "shard")

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.records: deque[Held] = deque()
        self.memory = 0
        """Approximate bytes of memory that the held records take."""
        self.read_as_of = float("-inf")
        """A time by the monotonic clock: everything that could be read then has been read."""
        self._last_ms = 0
        self._reached_ms = 0

    @property
    def reached_ms(self) -> int:
        """The time before which no further record of the shard is expected."""
        return max(self._last_ms, self._reached_ms)

    def add(
        self, time_ms: int | None, read_at: float, offset: int,
        key: bytes | None, value: bytes | None, headers: Headers,
    ) -> None:  # fmt: skip
        """Append a record; a record without a time, such as a tombstone, gets the previous record's."""
        self._last_ms = max(self._last_ms, time_ms or 0)
        self.records.append(Held(self._last_ms, read_at, offset, key, value, headers))
        self.memory += self.records[-1].memory

    def complete_until(self, time_ms: int) -> None:
        """Record that all records of commits before a time were read."""
        self._reached_ms = max(self._reached_ms, time_ms)

    def read_all(self, as_of: float) -> None:
        """Record that everything that could be read at the time ``as_of`` has been read."""
        self.read_as_of = max(self.read_as_of, as_of)

    def pop(self) -> Held:
        """Remove the first record and return it."""
        held = self.records.popleft()
        self.memory -= held.memory
        return held


class PartitionOrder:
    """The order of one partition's records."""

    __slots__ = ("_emitted_ms", "_wait", "lanes", "late")

    def __init__(self, lanes: Iterable[Lane], *, wait: float | None) -> None:
        """``wait``: seconds that a record waits until earlier records of other shards are in Kafka; None:
        without limit."""
        self.lanes = tuple(lanes)
        self._wait = wait
        self._emitted_ms = 0
        self.late = 0
        """Count of records released after another shard's record with a later commit time."""

    def resume(self, before: PartitionOrder) -> None:
        """Continue an earlier order of the same partition."""
        self._emitted_ms, self.late = before._emitted_ms, before.late

    def take(self, stalled: Collection[str] = ()) -> list[tuple[Lane, Held]]:
        """Remove and return the records that may be published now, in their order.

        Shards that are ``stalled`` are not waited for; their records come first, as they are late in any case.
        """
        taken = [
            (lane, self._note(lane.pop()))
            for lane in self.lanes
            if lane.shard in stalled
            for _ in range(len(lane.records))
        ]
        lanes = [lane for lane in self.lanes if lane.shard not in stalled]
        while True:
            waiting = sorted(
                (lane for lane in lanes if lane.records), key=lambda lane: lane.records[0].time_ms
            )
            if not waiting:
                return taken
            first = waiting[0]
            bound = waiting[1].records[0].time_ms if len(waiting) > 1 else None
            run = self._run_of(first, bound, [lane for lane in lanes if not lane.records])
            if not run:
                return taken
            taken += run

    def _run_of(
        self, lane: Lane, bound: int | None, empty: Collection[Lane]
    ) -> list[tuple[Lane, Held]]:
        """Take the first records of a lane, up to ``bound``, the time of another lane's first record."""
        run: list[tuple[Lane, Held]] = []
        records, wait = lane.records, self._wait
        complete = min((one.reached_ms for one in empty), default=None)
        while records:
            head = records[0]
            if bound is not None and head.time_ms > bound:
                break
            if complete is not None and head.time_ms > complete:
                # Whatever Kafka has of the other shards is read first, however long that takes.
                until = min(one.read_as_of for one in empty if one.reached_ms < head.time_ms)
                if wait is None or until < head.read_at + wait:
                    break
            run.append((lane, self._note(lane.pop())))
        return run

    def _note(self, held: Held) -> Held:
        if held.time_ms < self._emitted_ms:
            self.late += 1
        else:
            self._emitted_ms = held.time_ms
        return held
