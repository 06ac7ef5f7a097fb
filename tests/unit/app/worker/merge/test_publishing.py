"""The Kafka transactions of a merge: cursors after each, and batches that a topic refuses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.record import MemoryRecords

from app.worker.coordination.write_permit import WritePermit
from app.worker.merge.ordering import Held, Lane
from app.worker.merge.plan import MergePlan
from app.worker.merge.publishing import MergePublisher
from app.worker.merge.released import ReleasedRecord
from app.worker.merge.shares import Share, Shares
from app.worker.pipeline.publish import topic_ids
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.pipeline.publish.transaction_size import Budget
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    KafkaDenied,
    KafkaSlow,
    RecordTooLarge,
    RunRestarts,
    TooFewBrokers,
    TopicReplaced,
    TopicUnfit,
)
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.topics import TopicPlan, Topics
from tables.state.merge_cursor import MergeCursor, MergeCursors, checksum
from tests.unit.app.worker.merge.test_shares import PLAN

TOPIC = "aq.__shard.a.trade"
LIMIT = 3000


class Kafka:
    """A producer whose topics refuse large batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        """The records of each batch that was accepted."""
        self.partitions: list[int] = []
        self.notes = 0
        self.is_slow = False
        self.offline: set[str] = set()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Kafka]:
        try:
            yield self
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge from error
        if self.is_slow:
            raise KafkaSlow("10 s were not enough")

    async def learn(self, _topics: set[str]) -> None:
        """All are known."""

    async def send(self, *_: object, **__: object) -> asyncio.Future[None]:
        self.notes += 1
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(None)
        return answer

    async def send_batch(self, batch: Any, _topic: str, *, partition: int) -> asyncio.Future[None]:
        answer = asyncio.get_running_loop().create_future()
        if batch.size() > LIMIT:
            answer.set_exception(MessageSizeTooLargeError())
        else:
            held = MemoryRecords(bytes(batch._build())).next_batch()
            self.batches.append(len(list(held)))
            self.partitions.append(partition)
            answer.set_result(None)
        return answer

    async def unwritable(self, names: set[str]) -> dict[str, AqueductError]:
        return {one: TooFewBrokers("no leader", topic=one) for one in names & self.offline}

    async def largest(self, _topic: str) -> int:
        return LIMIT


class Scene:
    """A merge over all its runs."""

    def __init__(self, plan: MergePlan = PLAN) -> None:
        self.kafka, self.cursors, self.budget = Kafka(), MergeCursors(), Budget(plan.max_bytes)
        self.plan = plan
        self.lanes = [Lane("a") for _ in range(3)]
        by_partition = {
            (TOPIC, at): Share(lane=lane, merged=("aq.trade", at))
            for at, lane in enumerate(self.lanes)
        }
        self.shares = cast(Shares, SimpleNamespace(by_partition=by_partition))

    def run(self) -> MergePublisher:
        return MergePublisher(
            plan=self.plan,
            producer=cast(TransactionalProducer, self.kafka),
            permit=WritePermit(),
            budget=self.budget,
            topics=cast(Topics, self.kafka),
            ids=cast(TopicIds, None),
            cursors=self.cursors,
        )

    async def publish(self, partition: int, *values: bytes, offset: int = 0) -> None:
        """Publish records of one partition, in a run of their own."""
        lane = self.lanes[partition]
        part = [
            ReleasedRecord(("aq.trade", partition), lane, Held(1, 0.0, offset + at, b"{}", one, []))
            for at, one in enumerate(values)
        ]
        await self.run().publish(self.shares, part)


async def test_a_cursor_keeps_what_it_has_of_partitions_without_a_new_record() -> None:
    scene = Scene()
    known = MergeCursor(
        merge=PLAN.unit, topic=TOPIC, offsets={"0": 5, "1": 9}, checksums={"1": 3}, ts_ms=1
    )
    scene.cursors.by_topic[TOPIC] = known
    await scene.publish(0, b"x", b"y", offset=6)
    cursor = scene.cursors.by_topic[TOPIC]
    assert cursor.offsets == {"0": 8, "1": 9}
    # Of the last record, by which it is recognized.
    assert cursor.checksums == {"0": checksum(b"{}", b"y", []), "1": 3}
    await scene.publish(2, b"z", offset=3)
    assert scene.cursors.by_topic[TOPIC].offsets == {"0": 8, "1": 9, "2": 4}
    assert (scene.kafka.partitions, scene.kafka.notes) == ([0, 2], 2)


async def test_a_batch_is_no_larger_than_the_settings_allow() -> None:
    scene = Scene(replace(PLAN, max_batch_bytes=1500))
    await scene.publish(0, *[b"x" * 600] * 4)
    assert scene.kafka.batches == [2, 2]


async def test_a_topic_that_takes_less_gets_smaller_batches_in_the_next_run() -> None:
    scene = Scene()
    values = [b"x" * 600] * 10
    with pytest.raises(BatchTooLarge, match=r"topic=aq\.trade"):
        await scene.publish(0, *values)
    assert scene.cursors.by_topic == {}
    await scene.publish(0, *values)
    assert scene.kafka.batches == [4, 4, 2]


async def test_a_record_that_its_topic_cannot_take_is_named() -> None:
    with pytest.raises(RecordTooLarge, match=r"topic=aq\.trade"):
        await Scene().publish(0, b"x", b"x" * 5000)


async def test_a_transaction_that_was_too_slow_is_shown_with_its_size() -> None:
    scene = Scene()
    scene.kafka.is_slow = True
    with pytest.raises(KafkaSlow, match="records=2, bytes="):
        await scene.publish(0, b"x", b"y")
    assert scene.cursors.by_topic == {}


async def test_the_next_run_leaves_out_topics_that_take_no_records_and_is_not_smaller() -> None:
    scene = Scene()
    scene.kafka.is_slow, scene.kafka.offline = True, {"aq.trade", "aq.other"}
    with pytest.raises(RunRestarts, match=r"take no records: aq\.trade\."):
        await scene.publish(0, b"x")
    assert (scene.cursors.by_topic, scene.budget.halvings) == ({}, 0)


async def test_larger_transactions_are_tried_again_after_many_that_were_fast() -> None:
    scene = Scene()
    scene.budget.too_slow()
    for at in range(25):
        await scene.publish(0, b"x", offset=at)
    assert scene.budget.halvings == 0


class Brokers:
    """The topics of a merge, each of which may have a trouble of its own; and what was asked."""

    def __init__(self, **troubles: AqueductError) -> None:
        self.troubles = {f"aq.{name}": error for name, error in troubles.items()}
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.plans: dict[str, TopicPlan] = {}

    def _of(self, what: str, names: Iterable[str], *kinds: type) -> dict[str, AqueductError]:
        self.asked.append((what, frozenset(names)))
        return {
            name: error
            for name, error in self.troubles.items()
            if isinstance(error, kinds) and name in self.asked[-1][1]
        }

    async def grow(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
        return self._of("grow", counts, KafkaDenied)

    async def unfit(self, *plans: TopicPlan, before: Container[str]) -> dict[str, AqueductError]:
        assert all(name in before for name in ("aq.known", "aq.again"))
        self.plans = {plan.name: plan for plan in plans}
        return self._of("unfit", self.plans, TopicUnfit)

    async def ids(self, names: Iterable[str]) -> dict[str, str]:
        self._of("ids", names)
        return dict.fromkeys(names, "1")

    async def unwritable(self, names: Iterable[str]) -> dict[str, AqueductError]:
        return self._of("unwritable", names, TooFewBrokers)


async def test_merged_topics_are_made_ready_in_one_request_of_each_kind_and_wait_each_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_ids, "_AGAIN_SECONDS", 0.0)
    brokers = Brokers(
        denied=KafkaDenied("Alter"), unfit=TopicUnfit("small"), away=TooFewBrokers("no leader")
    )
    known = {"aq.known": "1", "aq.again": "0"}
    ids = TopicIds(
        destination=PLAN.unit, topics=cast(Topics, brokers), reread="aq.__journal", known=known
    )
    publisher = Scene().run()
    publisher.topics, publisher.ids = cast(Topics, brokers), ids
    counts = {f"aq.t{number}": 2 for number in range(1000)}
    own = ("known", "again", "denied", "unfit", "away")
    found = await publisher.unusable(counts | {f"aq.{name}": 3 for name in own})
    assert {name: type(error) for name, error in found.items()} == {
        "aq.denied": KafkaDenied,
        "aq.unfit": TopicUnfit,
        "aq.again": TopicReplaced,
        "aq.away": TooFewBrokers,
    }
    kinds = Counter(what for what, _ in brokers.asked)
    # The ids are asked for again, as one of them is another one.
    assert kinds == {"grow": 1, "unfit": 1, "ids": 2, "unwritable": 1}
    assert brokers.plans["aq.known"].partitions == 3
    assert all(plan.may_have_more for plan in brokers.plans.values())
    assert len(publisher._notes) == 1001, "those of the thousand, and of the one that is away"
