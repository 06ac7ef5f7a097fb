"""Where a group begins, and continues when Kafka has forgotten it, with a real broker."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from app.commands.event_loop import run_operation
from aqueduct_client import Latest, SyncSubscriber, kafka, subscribe
from aqueduct_client.errors import RecordsGone, TopicReplaced, UnknownTable
from connectors.kafka.group_positions import delete_offsets, group_offsets, store_offsets
from connectors.kafka.topics.topics import TopicPlan, Topics
from devstack import Stack
from tests.harness.servers import own_stack
from tests.harness.wait import TIMEOUT, until
from tests.unit.aqueduct_client.made import headers, seqs, value

TABLES = ("trade.orders", "trade.later")


@dataclass(frozen=True, slots=True)
class Shop:
    """An installation's topics."""

    brokers: str
    prefix: str

    @property
    def options(self) -> dict[str, str]:
        return {"bootstrap_servers": self.brokers}

    def topic(self, table: str) -> str:
        return f"{self.prefix}.{table}"

    def create(self, table: str, partitions: int) -> None:
        plan = TopicPlan(
            name=self.topic(table),
            partitions=partitions,
            replication_factor=1,
            max_message_bytes=10**6,
        )
        run_operation(Topics(self.options).ensure(plan))

    def grow(self, table: str, partitions: int) -> None:
        run_operation(Topics(self.options).grow({self.topic(table): partitions}))

    def delete(self, table: str) -> None:
        async def deleted() -> None:
            admin = AIOKafkaAdminClient(**self.options)
            await admin.start()
            await admin.delete_topics([self.topic(table)])
            await admin.close()

        run_operation(deleted())

    def publish(self, table: str, partition: int, *numbers: int) -> None:
        async def published() -> None:
            async with AIOKafkaProducer(**self.options) as producer:
                for seq in numbers:
                    await producer.send_and_wait(
                        self.topic(table), value(seq), partition=partition, headers=headers(seq)
                    )

        run_operation(published())

    def subscriber(self, **more: Any) -> SyncSubscriber:
        return subscribe(
            *TABLES, group=f"{self.prefix}.g", brokers=self.brokers, prefix=self.prefix,
            session_seconds=6, start=Latest(), not_yet=["trade.later"], **more,
        )  # fmt: skip

    def offsets(self) -> dict[tuple[str, int], int]:
        return run_operation(group_offsets(self.options, f"{self.prefix}.g"))


def got(subscriber: SyncSubscriber, count: int) -> list[int]:
    """So many changes, acknowledged."""
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < deadline:
        found += seqs(subscriber.get())
    assert len(subscriber.get(timeout=0.3)) == 0
    return sorted(found)


def test_a_group_misses_nothing_of_what_comes_later_nor_after_it_was_forgotten(
    stack: Stack,
) -> None:
    shop = Shop(stack.kafka, f"late-{uuid.uuid4().hex[:8]}")
    shop.create("trade.orders", 1)
    shop.publish("trade.orders", 0, 1, 2, 3)
    with pytest.raises(UnknownTable, match=r"trade\.Orders: .*the nearest are .*trade\.orders"):
        subscribe("trade.Orders", group="g", brokers=stack.kafka, prefix=shop.prefix).__enter__()
    with shop.subscriber() as subscriber:
        assert got(subscriber, 0) == []
        shop.grow("trade.orders", 3)
        shop.create("trade.later", 2)
        shop.publish("trade.orders", 1, 11, 12)
        shop.publish("trade.later", 1, 21, 22)
        assert got(subscriber, 4) == [11, 12, 21, 22]
    shop.publish("trade.orders", 0, 4)
    shop.publish("trade.orders", 1, 13)
    known = run_operation(group_offsets(shop.options, f"{shop.prefix}.g"))
    run_operation(delete_offsets(shop.options, f"{shop.prefix}.g", list(known)))
    with shop.subscriber() as subscriber:
        assert got(subscriber, 2) == [4, 13]
    # An offset that the partition does not have is replaced by none.
    store = partial(store_offsets, shop.options, f"{shop.prefix}.g")
    run_operation(store({(shop.topic("trade.orders"), 0): 9999}))
    with shop.subscriber() as subscriber, pytest.raises(RecordsGone):
        got(subscriber, 1)
    run_operation(store({(shop.topic("trade.orders"), 0): 4}))
    shop.delete("trade.orders")
    with contextlib.suppress(TimeoutError):
        until(lambda: not any("orders" in topic for topic, _ in shop.offsets()))
    shop.create("trade.orders", 3)
    shop.publish("trade.orders", 1, 31, 32, 33, 34, 35)
    with pytest.raises(TopicReplaced, match=f"topic={shop.prefix}.trade.orders"):
        shop.subscriber().__enter__()


def test_a_group_begins_where_the_brokers_refuse_a_setting_of_the_topic_of_notes(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(
        kafka._COMPACTED, "segment.bytes", "1"
    )  # as a managed cluster's least is larger
    shop = Shop(stack.kafka, f"managed-{uuid.uuid4().hex[:8]}")
    shop.create("trade.orders", 1)
    with shop.subscriber() as subscriber:
        assert got(subscriber, 0) == []
        shop.publish("trade.orders", 0, 1)
        assert got(subscriber, 1) == [1]
    assert "made with cleanup.policy alone, and is larger" in caplog.text
    assert "segment.bytes" in caplog.text, "the brokers' reason"


@pytest.fixture
def forgetful(tmp_path: Any) -> Iterator[Stack]:
    """A broker that forgets the offsets of a group after a minute."""
    options = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
    with own_stack(tmp_path / "stack", ("kafka",), kafka_options=options) as stack:
        yield stack


@pytest.mark.long("the test above deletes the group's offsets instead")
def test_a_group_that_was_away_for_longer_than_kafka_remembers_continues(forgetful: Stack) -> None:
    shop = Shop(forgetful.kafka, "away")
    shop.create("trade.orders", 2)
    shop.publish("trade.orders", 0, 1, 2, 3)
    with shop.subscriber() as subscriber:
        assert got(subscriber, 0) == []
        shop.publish("trade.orders", 0, 4, 5)
        assert got(subscriber, 2) == [4, 5]
    for number in range(100):
        shop.publish("trade.orders", number % 2, 100 + number)
    until(lambda: not shop.offsets())
    with shop.subscriber() as subscriber:
        assert got(subscriber, 100) == list(range(100, 200))
