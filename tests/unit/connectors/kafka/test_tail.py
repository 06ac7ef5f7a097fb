"""A topic that is followed for as long as a process lives, also after its brokers were away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.backoff import Backoff
from connectors.errors import AqueductError, KafkaDenied, KafkaLost, RecordsGone
from connectors.kafka import reading as module
from connectors.kafka.reading import Partition, Tail

A, B = ("t", 0), ("t", 1)


class Kafka:
    """The twin of a Follower; each connection ends with the next of some errors, and the last one stays."""

    def __init__(self, *errors: AqueductError) -> None:
        self.ends: dict[Partition, int] = {A: 10, B: 20}
        self.positions: dict[Partition, int] = {}
        self.began: list[dict[Partition, int]] = []
        self.errors = list(errors)
        self.stays = asyncio.Event()

    @contextlib.asynccontextmanager
    async def opened(self, _: object, *, wait_seconds: float) -> AsyncIterator[Kafka]:
        assert wait_seconds > 0
        yield self

    async def readable(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {one: self.ends[one] for one in partitions}

    async def position(self, one: Partition) -> int:
        return self.positions[one]

    async def follow(self, starts: Mapping[Partition, int]) -> None:
        self.began.append(dict(starts))
        self.positions = dict(starts)

    async def read(self, _: float) -> dict[Partition, list[Any]]:
        if self.positions[A] == 10 and len(self.began) == 1:
            self.positions[A] = 11
            return {A: [SimpleNamespace(key=b"k", value=b"v", offset=10, headers=())]}
        if not self.errors:
            self.stays.set()
            await asyncio.Event().wait()
        raise self.errors.pop(0)


@contextlib.asynccontextmanager
async def following(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tail]:
    """A tail that has read until its connection stays."""

    def pause(_: object) -> float:
        kafka.ends = dict.fromkeys(kafka.ends, 3)
        return 0

    monkeypatch.setattr(module, "Follower", kafka)
    monkeypatch.setattr(Backoff, "pause", pause)
    tail = Tail({}, "t", range(2), lambda *_: None)
    running = asyncio.create_task(tail.run())
    async with asyncio.timeout(10):
        await kafka.stays.wait()
    yield tail
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("error", [KafkaLost("no broker"), KafkaDenied("no account")])
async def test_a_position_is_kept_over_an_outage(
    error: AqueductError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka(error)
    async with following(kafka, monkeypatch) as tail:
        assert kafka.began == [{A: 10, B: 20}, {A: 11, B: 20}]
        assert tail.to_json() == {"followed": True, "error": None}
    assert f"commands are not received: {error.name}: {error}" in caplog.text
    assert "topic=t" in str(error)


async def test_of_a_topic_that_was_made_again_what_is_gone_is_followed_from_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = RecordsGone("t [0] has no offset 11")
    gone.lost = {A: 11}
    kafka = Kafka(gone, RecordsGone())
    async with following(kafka, monkeypatch):
        # Of which partitions is not known the second time.
        assert kafka.began == [{A: 10, B: 20}, {A: 3, B: 20}, {A: 3, B: 3}]
    assert "has no offset 0:11; it is followed from its end" in caplog.text
    assert "has no offset 1:20, 0:3; it is followed from its end" in caplog.text


async def test_records_that_do_not_come_are_noticed_and_markers_alone_are_none() -> None:
    kafka: Any = Kafka()
    kafka.ends, kafka.positions = {A: 5}, {A: 3}
    one = Tail({}, "t", range(1), lambda *_: None, start={0: 3})
    await one._check(kafka)
    kafka.positions = {A: 4}
    await one._check(kafka)
    kafka.positions = {A: 5}
    await one._check(kafka)
    kafka.ends = {A: 6}
    await one._check(kafka)
    with pytest.raises(KafkaLost, match="do not come"):
        await one._check(kafka)
