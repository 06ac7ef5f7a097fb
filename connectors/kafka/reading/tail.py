"""The tail of a topic, followed for as long as a process lives: each committed record, in order, once.

Invariant: a tail joins no group, so every process that follows a topic receives every record. A position,
once known, is kept over every outage; records that cannot be read now are read later.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.backoff import Backoff
from connectors.errors import AqueductError, KafkaLost, RecordsGone
from connectors.kafka.error_mapping import translated
from connectors.kafka.reading.partition_reader import Follower, Partition, StoredRecord

log = logging.getLogger(__name__)

Take = Callable[[int, StoredRecord], object]
"""Partition and record; an error that it raises ends the process's tail, so it should raise none."""

_WAIT_SECONDS = 0.2
"""Seconds that a broker holds a fetch for which it has nothing."""
_POLL_SECONDS = 1.0
_LONGEST_PAUSE = 10.0
_CHECK_SECONDS = 10.0
"""Seconds without a record after which the broker is asked whether there are unread records."""


@dataclass(slots=True)
class Tail:
    """A topic's partitions, from their committed ends at the first read, or from given offsets."""

    options: Mapping[str, Any]
    topic: str
    partitions: Iterable[int]
    take: Take
    start: Mapping[int, int] = field(default_factory=dict)
    error: AqueductError | None = None
    """The error that prevents reading now."""
    _next: dict[Partition, int] = field(default_factory=dict)
    """The next offset to read."""
    _placed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _late: dict[Partition, int] = field(default_factory=dict)
    """Partitions whose end was past the read position at the last check, and that position."""

    def __post_init__(self) -> None:
        self._next = {(self.topic, part): at for part, at in self.start.items()}

    async def run(self) -> None:
        """Follow, until cancelled."""
        backoff = Backoff(0.5, _LONGEST_PAUSE)
        while True:
            began = time.monotonic()
            try:
                async with Follower.opened(self.options, wait_seconds=_WAIT_SECONDS) as follower:
                    await self._begin(follower)
                    await self._follow(follower)
            except RecordsGone as error:
                self._cut(error)
            except (AqueductError, OSError) as error:
                self._report(translated(error))
            if time.monotonic() - began > _LONGEST_PAUSE:
                backoff.reset()
            await asyncio.sleep(backoff.pause())

    async def placed(self) -> None:
        """Wait until every record committed from now on will be read; raise the error that prevents it."""
        while not self._placed.is_set():
            waits = [asyncio.create_task(each.wait()) for each in (self._placed, self._failed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self.error is not None and not self._placed.is_set():
                raise copy.copy(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the tail's state for the status page."""
        error = self.error
        return {
            "followed": self._placed.is_set() and error is None,
            "error": None if error is None else f"{error.name}: {error}",
        }

    async def _begin(self, follower: Follower) -> None:
        """Follow each partition from its next offset on; a new partition from its committed end."""
        every = [(self.topic, part) for part in self.partitions]
        # Records of a transaction open at that end are read later, once committed.
        self._next |= await follower.readable([one for one in every if one not in self._next])
        await follower.follow({one: self._next[one] for one in every})
        if self.error is not None:
            log.info("%s is followed again", self.topic)
        self.error = None
        self._failed.clear()
        self._placed.set()

    async def _follow(self, follower: Follower) -> None:
        self._late = {}
        checked = time.monotonic()
        while True:
            batches = await follower.read(_POLL_SECONDS)
            for one, records in batches.items():
                for record in records:
                    self._next[one] = record.offset + 1
                    self.take(one[1], StoredRecord.of(record))
            if not batches and time.monotonic() - checked > _CHECK_SECONDS:
                await self._check(follower)
                checked = time.monotonic()

    async def _check(self, follower: Follower) -> None:
        """Raise KafkaLost if unread records do not arrive; aiokafka only logs the reason."""
        ends = await follower.readable(self._next)
        positions = {one: await follower.position(one) for one in ends}
        late = {one: at for one, at in positions.items() if at < ends[one]}
        # Markers of transactions give no record, but move the position.
        if late.items() & self._late.items():
            raise KafkaLost("it has records that do not come", topic=self.topic)
        self._late = late

    def _report(self, error: AqueductError) -> None:
        known, self.error = self.error, error
        error.context.setdefault("topic", self.topic)
        self._failed.set()
        if known is None or known.name != error.name:
            log.error(
                "%s is not followed now, commands are not received: %s: %s",
                self.topic, error.name, error,
            )  # fmt: skip

    def _cut(self, error: RecordsGone) -> None:
        """Restart at the end of a topic that was truncated or recreated; every run reads the topic itself."""
        lost = error.lost or self._next
        log.error(
            "%s was truncated or recreated: it has no offset %s; it is followed from its end",
            self.topic, ", ".join(f"{number}:{at}" for (_, number), at in lost.items()),
        )  # fmt: skip
        for one in list(lost):
            self._next.pop(one, None)
