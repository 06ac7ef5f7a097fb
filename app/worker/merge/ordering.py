"""The order of one partition of a merged topic: the records of its shards, by the time of their commit.

Invariant: records of one shard keep their order, whatever their times are, and each is released once. A record
is released when no shard that counts can still have an earlier one, or when it has waited long enough and what
came meanwhile is read. The idea is that of the timeline barrier in Canal's GroupEventSink; where Canal puts
heartbeats among the events, each shard here has a time up to which it is known to be complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

Headers = list[tuple[str, bytes]]

_RECORD_BYTES, _HEADER_BYTES = 352, 160
"""Of memory, beside the texts of a record and of each of its headers."""


class Held(NamedTuple):
    """A record that was read and not yet released."""

    time_ms: int
    """The source's commit; not before that of the shard's record before."""
    read_at: float
    """By the monotonic clock, in seconds."""
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def bytes(self) -> int:
        """Of its key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def memory(self) -> int:
        """Bytes of memory that it takes, about; a tombstone takes forty times its key."""
        headers = sum(_HEADER_BYTES + len(name) + len(value) for name, value in self.headers)
        return _RECORD_BYTES + self.bytes + headers


class Lane:
    """One shard's records of one partition."""

    __slots__ = ("_last_ms", "_reached_ms", "memory", "read_as_of", "records", "shard")

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.records: deque[Held] = deque()
        self.memory = 0
        """Bytes of memory that the records held take, about."""
        self.read_as_of = float("-inf")
        """The time, by the monotonic clock, up to which all is read that could be read then."""
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
        """Append a record; one without a time of its own, such as a tombstone, belongs to the one before."""
        self._last_ms = max(self._last_ms, time_ms or 0)
        self.records.append(Held(self._last_ms, read_at, offset, key, value, headers))
        self.memory += self.records[-1].memory

    def complete_until(self, time_ms: int) -> None:
        """Record that all records of commits before a time were read."""
        self._reached_ms = max(self._reached_ms, time_ms)

    def read_all(self, as_of: float) -> None:
        """Record that all is read that could be read at a time."""
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
        """``wait``: seconds that a record waits for earlier ones of other shards to come to Kafka; None:
        without limit."""
        self.lanes = tuple(lanes)
        self._wait = wait
        self._emitted_ms = 0
        self.late = 0
        """Records that were released after one of a later commit of another shard."""

    def resume(self, before: PartitionOrder) -> None:
        """Continue an order with fewer lanes."""
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
        """Take the first records of a lane, up to the head of the next one."""
        run: list[tuple[Lane, Held]] = []
        records, wait = lane.records, self._wait
        complete = min((one.reached_ms for one in empty), default=None)
        while records:
            head = records[0]
            if bound is not None and head.time_ms > bound:
                break
            if complete is not None and head.time_ms > complete:
                # What Kafka has of the others is read first, however long that takes.
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
