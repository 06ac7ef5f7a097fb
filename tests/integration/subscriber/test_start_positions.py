"""Where a group begins, and continues when Kafka has forgotten it, with a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from app.operator.terminal import run_operation
from aqueduct_client import (
    AfterGtids,
    AfterSeq,
    AtTime,
    Latest,
    Subscriber,
    SyncSubscriber,
    kafka,
    subscribe,
    subscribe_async,
)
from aqueduct_client.errors import RecordsGone, StaleBatch, TopicReplaced, UnknownTable
from aqueduct_client.notes import Notes, TopicNote
from connectors.kafka.group_positions import delete_offsets, group_offsets, store_offsets
from connectors.kafka.topics import TopicPlan, Topics
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


@pytest.mark.remedy("client.UnknownTable")
def test_a_group_misses_nothing_of_what_comes_later_nor_after_it_was_forgotten(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.5)
    with shop.subscriber() as subscriber:
        assert got(subscriber, 0) == []
        shop.delete("trade.orders")
        with pytest.raises(UnknownTable, match=r"trade\.orders: there is no topic"):
            got(subscriber, 1)
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


SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
STARTS = {"latest": Latest(), "time": AtTime(21_000), "gtids": AfterGtids(f"{SERVER}:1-20")}
BEFORE, ALL, PARTITIONS = 40, 400, 4


def numbers(found: list[tuple[int, int, int]]) -> set[int]:
    return {seq for *_, seq in list(found)}


async def test_members_that_begin_a_group_at_once_deliver_each_change_once(stack: Stack) -> None:
    shop = Shop(stack.kafka, f"once-{uuid.uuid4().hex[:8]}")
    await asyncio.to_thread(shop.create, "trade.orders", PARTITIONS)
    topic = shop.topic("trade.orders")
    found: dict[str, list[tuple[int, int, int]]] = {name: [] for name in STARTS}
    first, second = asyncio.Event(), asyncio.Event()

    async def member(name: str, over: asyncio.Event) -> None:
        async with subscribe_async(
            "trade.orders", group=f"{shop.prefix}.{name}", brokers=shop.brokers, prefix=shop.prefix,
            start=STARTS[name], session_seconds=6,
        ) as subscriber:  # fmt: skip
            while not over.is_set():
                batch = await subscriber.get_without_ack(7, timeout=0.5)
                with contextlib.suppress(StaleBatch):
                    await subscriber.ack(batch.id)
                    found[name] += [
                        (each.raw.partition.number, each.raw.offset, each.seq) for each in batch
                    ]

    async with AIOKafkaProducer(**shop.options) as producer:

        async def send(seq: int) -> None:
            await producer.send_and_wait(
                topic, value(seq), partition=seq % PARTITIONS, headers=headers(seq)
            )

        for seq in range(1, BEFORE + 1):
            await send(seq)
        members = [
            asyncio.ensure_future(member(name, over)) for name in STARTS for over in (first, second)
        ]
        for seq in range(BEFORE + 1, ALL + 1):
            await send(seq)
        last = set(range(ALL - PARTITIONS, ALL + 1))
        await asyncio.to_thread(until, lambda: all(last <= numbers(one) for one in found.values()))
        second.set()
        last = set(range(ALL + 1, ALL + 41))
        for seq in sorted(last):
            await send(seq)
    await asyncio.to_thread(until, lambda: all(last <= numbers(one) for one in found.values()))
    first.set()
    await asyncio.gather(*members)
    for name in ("time", "gtids"):
        assert sorted(seq for *_, seq in found[name]) == list(range(21, ALL + 41))
    (note,) = (await asyncio.to_thread(notes_of, shop, "latest")).values()
    ends = dict.fromkeys(range(PARTITIONS), (ALL + 40) // PARTITIONS)
    assert sorted(one[:2] for one in found["latest"]) == [
        (number, at) for number, end in ends.items() for at in range(note.starts[number], end)
    ]


async def test_a_start_is_found_where_a_partition_ends_with_what_nobody_reads(stack: Stack) -> None:
    """Aborted records, only such, none at all, and a tombstone; and an open transaction, which comes later."""
    shop = Shop(stack.kafka, f"ends-{uuid.uuid4().hex[:8]}")
    await asyncio.to_thread(shop.create, "trade.orders", 5)
    topic = shop.topic("trade.orders")
    options = shop.options | {"transactional_id": shop.prefix}
    async with AIOKafkaProducer(**shop.options) as plain, AIOKafkaProducer(**options) as producer:

        async def send(by: AIOKafkaProducer, number: int, *numbers: int) -> None:
            for seq in numbers:
                await by.send_and_wait(topic, value(seq), partition=number, headers=headers(seq))

        await send(plain, 0, 1, 2, 3)
        await send(plain, 3, 4)
        await plain.send_and_wait(topic, None, key=b"{}", partition=3)
        for number in (0, 1):
            await producer.begin_transaction()
            await send(producer, number, 50 + number)
            await producer.abort_transaction()
        await producer.begin_transaction()
        await send(producer, 4, 10)
        starts = {
            "latest": (Latest(), []),
            "late": (AtTime(1_000_000), []),
            "first": (AtTime(0), [1, 2, 3, 4]),
            "gtids": (AfterGtids(f"{SERVER}:1-2"), [3, 4]),
            "seq": (AfterSeq(3, "shop"), [4]),
        }
        async with contextlib.AsyncExitStack() as opened:
            members = {
                name: await opened.enter_async_context(
                    subscribe_async(
                        "trade.orders", group=f"{shop.prefix}.{name}", brokers=shop.brokers,
                        prefix=shop.prefix, start=start,
                    )
                )
                for name, (start, _) in starts.items()
            }  # fmt: skip
            for name, (_, before) in starts.items():
                assert await all_of(members[name], len(before)) == before
            await producer.commit_transaction()
            for number in range(4):
                await send(plain, number, 1000 + number)
            later = [10, *range(1000, 1004)]
            for name, member in members.items():
                assert await all_of(member, len(later)) == later, name


async def all_of(subscriber: Subscriber, count: int) -> list[int]:
    """So many changes and no more, acknowledged."""
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < deadline:
        found += seqs(await subscriber.get())
    return sorted(found + seqs(await subscriber.get(timeout=1)))


@pytest.mark.long(
    "the test above has no kills; unit/aqueduct_client/test_notes.py ends a member as it begins"
)
@pytest.mark.parametrize("moment", [0.0, 0.1, 0.5, 1.5])
def test_members_that_begin_at_once_and_are_killed_skip_nothing(
    stack: Stack, tmp_path: Path, moment: float
) -> None:
    shop = Shop(stack.kafka, f"killed-{uuid.uuid4().hex[:8]}")
    shop.create("trade.orders", PARTITIONS)
    command = [
        sys.executable,
        "-m",
        "tests.integration.subscriber.biller",
        shop.brokers,
        shop.prefix,
    ]
    sent, over = list[int](), threading.Event()

    def write() -> None:
        for first in range(1, 100_000, PARTITIONS):
            if over.wait(0.02):
                return
            for number in range(PARTITIONS):
                shop.publish("trade.orders", number, first + number)
                sent.append(first + number)

    writer = threading.Thread(target=write)
    writer.start()
    members = [subprocess.Popen([*command, str(tmp_path), "begin"]) for _ in range(2)]
    try:
        until(lambda: notes_of(shop, "begin"))
        time.sleep(moment)
        members[0].kill()
        members.append(subprocess.Popen([*command, str(tmp_path), "begin"]))
        (note,) = notes_of(shop, "begin").values()
        wanted = len(sent) + 200
        until(lambda: len(sent) >= wanted)
        over.set()
        writer.join()
        offsets = {seq: divmod(seq - 1, PARTITIONS) for seq in sent}
        due = {seq for seq, (at, number) in offsets.items() if at >= note.starts[number]}
        until(lambda: due <= noted(tmp_path))
        assert noted(tmp_path) == due
        assert notes_of(shop, "begin")[shop.topic("trade.orders")].starts == note.starts
    finally:
        over.set()
        for one in members:
            one.kill()
            one.wait()
        writer.join()


def noted(folder: Path) -> set[int]:
    file = folder / "noted"
    lines = file.read_text().splitlines() if file.exists() else []
    return {int(line.rpartition(":")[2].partition("#")[0]) for line in lines}


def notes_of(shop: Shop, name: str) -> dict[str, TopicNote]:
    """What is noted of a group, once there is a note of it."""
    notes = Notes(
        logs=partial(kafka.kafka_log, shop.options),
        appends=partial(kafka.kafka_append, shop.options),
        topic=f"{shop.prefix}.__subscribers",
        group=f"{shop.prefix}.{name}",
    )
    return run_operation(notes.read())


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
