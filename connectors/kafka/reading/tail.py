"""Following of partitions of a topic for as long as a process lives: each committed record, in
order, once.

Invariant: it is a member of no group, so every process that follows sees every record. A position,
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

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from connectors.backoff import Backoff
from connectors.errors import AqueductError, KafkaLost
from connectors.kafka.error_mapping import explained
from connectors.kafka.reading.partition_reader import StoredRecord, open_consumer

log = logging.getLogger(__name__)

Take = Callable[[int, StoredRecord], object]
"""Partition and record; an error that it raises ends the process's tail, so it should raise none."""

_POLL_MS = 1000
_LONGEST_PAUSE = 10.0
_CHECK_SECONDS = 10.0
"""After so long without a record the broker is asked whether there is none."""
_ANSWER_SECONDS = 15.0


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
    _next: dict[TopicPartition, int] = field(default_factory=dict)
    """The next offset to read."""
    _placed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _late: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions whose end was past the read position at the last check, and that position."""

    def __post_init__(self) -> None:
        self._next = {TopicPartition(self.topic, part): at for part, at in self.start.items()}

    async def run(self) -> None:
        """Follow, until cancelled."""
        backoff = Backoff(0.5, _LONGEST_PAUSE)
        while True:
            began = time.monotonic()
            try:
                async with open_consumer(self.options, "read_committed", self.topic) as consumer:
                    await self._seek(consumer)
                    await self._follow(consumer)
            except OffsetOutOfRangeError as error:
                self._cut(error)
            except (KafkaError, KafkaLost, OSError, TimeoutError) as error:
                await self._report(error)
            if time.monotonic() - began > _LONGEST_PAUSE:
                backoff.reset()
            await asyncio.sleep(backoff.pause())

    async def placed(self) -> None:
        """Wait until every record committed from now on is certain to be read; raise the error that
        prevents it."""
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
        """For the status page."""
        error = self.error
        return {
            "followed": self._placed.is_set() and error is None,
            "error": None if error is None else f"{error.name}: {error}",
        }

    async def _seek(self, consumer: AIOKafkaConsumer) -> None:
        """Seek to the next offset; for a new partition, to the end of committed records."""
        every = [TopicPartition(self.topic, part) for part in self.partitions]
        consumer.assign(every)
        unknown = [tp for tp in every if tp not in self._next]
        async with asyncio.timeout(_ANSWER_SECONDS):
            # Records of a transaction open at that end are read later, once committed.
            self._next |= await consumer.end_offsets(unknown) if unknown else {}
        for tp in every:
            consumer.seek(tp, self._next[tp])
        if self.error is not None:
            log.info("%s is followed again", self.topic)
        self.error = None
        self._failed.clear()
        self._placed.set()

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        self._late = {}
        checked = time.monotonic()
        while True:
            batches = await consumer.getmany(timeout_ms=_POLL_MS)
            for tp, records in batches.items():
                for one in records:
                    self._next[tp] = one.offset + 1
                    self.take(tp.partition, StoredRecord.of(one))
            if not batches and time.monotonic() - checked > _CHECK_SECONDS:
                await self._check(consumer)
                checked = time.monotonic()

    async def _check(self, consumer: AIOKafkaConsumer) -> None:
        """Raise KafkaLost if records do not arrive; aiokafka only logs that."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            ends = await consumer.end_offsets(list(self._next))
        positions = {tp: await consumer.position(tp) for tp in ends}
        late = {tp: at for tp, at in positions.items() if at < ends[tp]}
        # Markers of transactions give no record, but move the position.
        if late.items() & self._late.items():
            raise KafkaLost("it has records that do not come", topic=self.topic)
        self._late = late

    async def _report(self, error: BaseException) -> None:
        known, self.error = self.error, await explained(error, self.options)
        self.error.context.setdefault("topic", self.topic)
        self._failed.set()
        if known is None or known.name != self.error.name:
            log.error(
                "%s is not followed now, commands are not received: %s: %s",
                self.topic, self.error.name, self.error,
            )  # fmt: skip

    def _cut(self, error: OffsetOutOfRangeError) -> None:
        """Restart at the end if the topic was truncated or created again; every run reads it on its own."""
        out = dict(error.args[0]) if error.args and isinstance(error.args[0], dict) else self._next
        log.error(
            "%s was truncated or recreated: it has no offset %s; it is followed from its end",
            self.topic, ", ".join(f"{tp.partition}:{at}" for tp, at in out.items()),
        )  # fmt: skip
        for tp in list(out):
            self._next.pop(tp, None)
