"""Finished batches on a real broker: all of a transaction's are seen in order, or none of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.produce import ProduceRequest

from connectors.errors import Fenced, RecordTooLarge
from connectors.kafka.producer import TransactionalProducer, send_finished
from connectors.kafka.reading import read_to_end
from connectors.kafka.record_batches import BatchWriter, FinishedBatch, Record, partition_of
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack

PARTITIONS = 3
LARGEST = 50_000


@pytest.fixture
def options(stack: Stack) -> dict[str, Any]:
    return {"bootstrap_servers": stack.kafka}


@pytest.fixture
async def topic(options: dict[str, Any]) -> str:
    name = f"finished-{uuid4().hex[:8]}"
    plan = TopicPlan(
        name=name, partitions=PARTITIONS, replication_factor=1, max_message_bytes=LARGEST
    )
    await Topics(options).ensure(plan)
    return name


@pytest.fixture
async def one(options: dict[str, Any], topic: str) -> AsyncIterator[TransactionalProducer]:
    producer = TransactionalProducer(topic, options=options, compression="lz4")
    await producer.init_transactions()
    yield producer
    await producer.discard()


def rows(numbers: Iterable[int]) -> list[Record]:
    return [
        (b'{"id":%d}' % (number % 40), b"%06d" % number, [("change_id", b"uuid:%d" % number)])
        for number in numbers
    ]


def finished(topic: str, written: list[Record], **options: Any) -> list[FinishedBatch]:
    settings: dict[str, Any] = {
        "partitions": PARTITIONS,
        "compression": "lz4",
        "max_bytes": 1500,
    }
    writer = BatchWriter(topic, timestamp_ms=1, **(settings | options))
    writer.extend(written)
    return writer.finished()


async def publish(producer: TransactionalProducer, *batches: FinishedBatch) -> None:
    async with producer.transaction() as kafka:
        await asyncio.gather(*[await send_finished(kafka, batch) for batch in batches])


async def assert_seen(options: dict[str, Any], topic: str, written: list[Record]) -> None:
    for partition in range(PARTITIONS):
        found = await read_to_end(options, topic, partition, start=0)
        assert [(record.key, record.value) for record in found] == [
            (key, value) for key, value, _ in written if partition_of(key, PARTITIONS) == partition
        ]


async def refreshed(options: dict[str, Any], topic: str) -> TransactionalProducer:
    """The next owner of the transactional id, whose beginning ends what was left open."""
    producer = TransactionalProducer(topic, options=options, compression="lz4")
    await producer.init_transactions()
    return producer


async def written_by_the_next(options: dict[str, Any], topic: str, written: list[Record]) -> None:
    producer = await refreshed(options, topic)
    try:
        await publish(producer, *finished(topic, written))
    finally:
        await producer.discard()


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_committed_batches_are_seen_whole_and_in_order(
    options: dict[str, Any], topic: str, one: TransactionalProducer, compression: str | None
) -> None:
    written = rows(range(1000))
    for start in range(0, 1000, 250):
        batches = finished(topic, written[start : start + 250], compression=compression)
        assert len(batches) > 2 * PARTITIONS
        await publish(one, *batches)
    await assert_seen(options, topic, written)


async def test_sequences_continue_when_records_are_sent_one_by_one_in_between(
    options: dict[str, Any], topic: str, one: TransactionalProducer
) -> None:
    written: list[Record] = []
    for start in range(0, 600, 200):
        many, single = rows(range(start, start + 150)), rows(range(start + 150, start + 200))
        async with one.transaction() as kafka:
            sent = [await send_finished(kafka, batch) for batch in finished(topic, many)]
            for key, value, headers in single:
                position = partition_of(key, PARTITIONS)
                sent.append(
                    await kafka.send(
                        topic, key=key, value=value, headers=headers, partition=position
                    )
                )
            sent += [await send_finished(kafka, batch) for batch in finished(topic, many)]
            await asyncio.gather(*sent)
        written += [*many, *single, *many]
    await assert_seen(options, topic, written)


async def test_batches_of_a_failed_transaction_are_never_seen(
    options: dict[str, Any], topic: str, one: TransactionalProducer
) -> None:
    await publish(one, *finished(topic, rows(range(100))))
    with pytest.raises(ZeroDivisionError):
        await failing(one, topic)
    await one.discard()
    await written_by_the_next(options, topic, rows(range(200, 300)))
    await assert_seen(options, topic, [*rows(range(100)), *rows(range(200, 300))])


async def failing(producer: TransactionalProducer, topic: str) -> None:
    async with producer.transaction() as kafka:
        batches = finished(topic, rows(range(100, 200)))
        await asyncio.gather(*[await send_finished(kafka, batch) for batch in batches])
        raise ZeroDivisionError


async def test_a_fenced_producers_batches_are_refused(
    options: dict[str, Any], topic: str, one: TransactionalProducer
) -> None:
    await publish(one, *finished(topic, rows(range(50))))
    await written_by_the_next(options, topic, rows(range(50, 100)))
    with pytest.raises(Fenced):
        await publish(one, *finished(topic, rows(range(100, 150))))
    await assert_seen(options, topic, rows(range(100)))


@pytest.mark.parametrize("before", [0, 30])
async def test_a_record_too_large_for_the_topic_keeps_everything_of_its_transaction_out(
    options: dict[str, Any], topic: str, one: TransactionalProducer, before: int
) -> None:
    huge: Record = (b'{"id":1}', os.urandom(LARGEST), [])
    batches = finished(topic, [*rows(range(before)), huge, *rows(range(100, 200))])
    with pytest.raises(RecordTooLarge):
        await publish(one, *batches)
    await one.discard()
    await written_by_the_next(options, topic, rows(range(10)))
    await assert_seen(options, topic, rows(range(10)))


async def test_a_batch_whose_answer_was_lost_is_there_once(
    options: dict[str, Any], topic: str, one: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = rows(range(300))
    lost = 0
    async with one.transaction() as kafka:
        answered = kafka.client.send

        async def unanswered(node: int, request: Any, **more: Any) -> Any:
            nonlocal lost
            answer = await answered(node, request, **more)
            if isinstance(request, ProduceRequest) and lost < 2:
                lost += 1
                raise RequestTimedOutError
            return answer

        monkeypatch.setattr(kafka.client, "send", unanswered)
        batches = finished(topic, written)
        await asyncio.gather(*[await send_finished(kafka, batch) for batch in batches])
    assert lost == 2
    await assert_seen(options, topic, written)


async def test_sequences_begin_again_after_the_last_one_there_is(
    options: dict[str, Any], topic: str, one: TransactionalProducer
) -> None:
    async with one.transaction() as kafka:
        sequences = kafka._txn_manager._sequence_numbers
        for partition in range(PARTITIONS):
            sequences[TopicPartition(topic, partition)] = 2**31 - 50
        batches = finished(topic, rows(range(300)))
        await asyncio.gather(*[await send_finished(kafka, batch) for batch in batches])
    await publish(one, *finished(topic, rows(range(300, 600))))
    await assert_seen(options, topic, rows(range(600)))
    assert all(0 < number < 1000 for number in sequences.values())
