"""The producer and the journal's reader on a real broker: what is committed is seen, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import ConcurrentTransactions, InvalidTimestampError
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest

from connectors.errors import Fenced, KafkaLost, KafkaSlow, RecordTooLarge, TopicUnfit
from connectors.kafka.open_transactions import open_transactions
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import firsts, read_to_end
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tests.harness.servers import own_stack


def plan(name: str, **more: Any) -> TopicPlan:
    settings: dict[str, Any] = {
        "partitions": 1,
        "replication_factor": 1,
        "max_message_bytes": 100_000,
    }
    return TopicPlan(name=name, **(settings | more))


@pytest.fixture
def options(stack: Stack) -> dict[str, Any]:
    return {"bootstrap_servers": stack.kafka}


@pytest.fixture
async def topic(options: dict[str, Any]) -> str:
    name = f"tx-{uuid4().hex[:8]}"
    await Topics(options).ensure(plan(name))
    return name


def producer(options: dict[str, Any], name: str) -> TransactionalProducer:
    return TransactionalProducer(name, options=options, compression="lz4")


async def written(one: TransactionalProducer, topic: str, *values: bytes) -> None:
    async with one.transaction() as kafka:
        sent = [await kafka.send(topic, key=b"k", value=value, partition=0) for value in values]
        await asyncio.gather(*sent)


async def values_in(options: dict[str, Any], topic: str, start: int = 0) -> list[bytes]:
    return [record.value for record in await read_to_end(options, topic, 0, start=start)]


async def test_what_was_committed_is_read_to_the_partitions_end(
    options: dict[str, Any], topic: str
) -> None:
    one = producer(options, topic)
    await one.init_transactions()
    try:
        await written(one, topic, b"1", b"2")
        await written(one, topic, b"3")
    finally:
        await one.discard()
    assert await values_in(options, topic) == [b"1", b"2", b"3"]
    assert await values_in(options, topic, start=2) == [b"3"]


async def test_a_failed_transaction_is_never_seen(options: dict[str, Any], topic: str) -> None:
    one = producer(options, topic)
    await one.init_transactions()
    with pytest.raises(ZeroDivisionError):
        await failing(one, topic)
    await one.discard()
    again = producer(options, topic)
    await again.init_transactions()
    try:
        await written(again, topic, b"kept")
    finally:
        await again.discard()
    assert await values_in(options, topic) == [b"kept"]


async def failing(one: TransactionalProducer, topic: str) -> None:
    async with one.transaction() as kafka:
        await (await kafka.send(topic, key=b"k", value=b"lost", partition=0))
        raise ZeroDivisionError


async def test_the_last_to_take_over_fences_who_was_there_before(
    options: dict[str, Any], topic: str
) -> None:
    old, new = producer(options, topic), producer(options, topic)
    await old.init_transactions()
    await written(old, topic, b"old")
    await new.init_transactions()
    try:
        with pytest.raises(Fenced):
            await written(old, topic, b"zombie")
        await written(new, topic, b"new")
    finally:
        await old.discard()
        await new.discard()
    assert await values_in(options, topic) == [b"old", b"new"]


async def test_a_refused_record_takes_its_whole_transaction_with_it(
    options: dict[str, Any], topic: str
) -> None:
    other = f"{topic}-cursor"
    await Topics(options).ensure(plan(other))
    one = producer(options, topic)
    await one.init_transactions()
    with pytest.raises(RecordTooLarge):
        await too_large(one, topic, other)
    await one.discard()
    # It is open no more, though nobody takes the id over: who reads waits for nothing.
    assert await open_transactions(options, other, 0) == []
    assert await values_in(options, topic) == []
    assert await values_in(options, other) == []


async def too_large(one: TransactionalProducer, topic: str, cursor_topic: str) -> None:
    """The transaction that plain aiokafka would commit anyway: the cursor without its row."""
    async with one.transaction() as kafka:
        batch = kafka.create_batch()
        batch.append(timestamp=1, key=b"k", value=os.urandom(400_000))
        sent = [
            await kafka.send_batch(batch, topic, partition=0),
            await kafka.send(cursor_topic, key=b"k", value=b"cursor", partition=0),
        ]
        await asyncio.gather(*sent)


async def test_the_first_records_of_many_partitions_are_found_from_their_offsets_on(
    options: dict[str, Any], topic: str
) -> None:
    names = [f"{topic}-{one}" for one in ("long", "none", "open", "past")]
    await Topics(options).ensure(*map(plan, names))
    long, none, opened, past = names
    before = producer(options, topic)
    await before.init_transactions()
    with contextlib.suppress(LookupError):
        async with before.transaction() as kafka:
            await (await kafka.send(topic, key=b"k", value=b"+aborted", partition=0))
            raise LookupError("the transaction is aborted")
    await before.discard()
    one, other = producer(options, topic), producer(options, f"{topic}-other")
    await one.init_transactions()
    await other.init_transactions()
    try:
        await written(one, topic, b"-1", b"+2", b"+3")
        await written(one, long, *(b"-%d" % number for number in range(900)), b"+far", b"+on")
        await written(one, past, b"+1")
        async with other.transaction() as kafka:
            await (await kafka.send(opened, key=b"k", value=b"+hidden", partition=0))
            starts = {topic: 0, long: 5, none: 0, opened: 0, past: 2}
            found = await firsts(
                options,
                {(name, 0): start for name, start in starts.items()},
                wanted=lambda record: record.value.startswith(b"+"),
            )
        assert {name: record.value for (name, _), record in found.items()} == {
            topic: b"+2",
            long: b"+far",
        }
        assert await firsts(options, {}, wanted=bool) == {}
    finally:
        await one.discard()
        await other.discard()


async def test_anothers_open_transaction_hides_a_commit_only_until_it_ends(
    options: dict[str, Any], topic: str
) -> None:
    slow, quick = producer(options, f"{topic}-slow"), producer(options, f"{topic}-quick")
    await slow.init_transactions()
    await quick.init_transactions()
    try:
        async with slow.transaction() as kafka:
            await (await kafka.send(topic, key=b"k", value=b"slow", partition=0))
            await written(quick, topic, b"quick")
            reading = asyncio.create_task(values_in(options, topic))
            await asyncio.sleep(1)
            assert not reading.done()
        assert await reading == [b"slow", b"quick"]
    finally:
        await slow.discard()
        await quick.discard()


async def test_a_topic_made_meanwhile_does_not_stall_the_others_of_its_transaction(
    options: dict[str, Any], topic: str
) -> None:
    # aiokafka's refresh for a new topic forgot all it knew of the others, until the transaction timed out.
    one = producer(options, topic)
    await one.init_transactions()
    new = f"{topic}-new"
    try:
        await written(one, topic, b"1")
        await Topics(options).ensure(plan(new))
        async with one.transaction() as kafka:
            sent = [
                await kafka.send(topic, key=b"k", value=b"2", partition=0),
                await kafka.send(new, key=b"k", value=b"new", partition=0),
            ]
            await asyncio.gather(*sent)
    finally:
        await one.discard()
    assert await values_in(options, topic) == [b"1", b"2"]
    assert await values_in(options, new) == [b"new"]


async def test_a_checkpoint_past_the_journal_is_refused(
    options: dict[str, Any], topic: str
) -> None:
    with pytest.raises(TopicUnfit, match="truncated or recreated"):
        await values_in(options, topic, start=5)


async def test_topics_are_made_as_planned_and_refused_when_they_differ(
    options: dict[str, Any],
) -> None:
    name = f"plan-{uuid4().hex[:8]}"
    await Topics(options).ensure(plan(name, partitions=3))
    await Topics(options).ensure(plan(name, partitions=3))
    with pytest.raises(TopicUnfit, match="it has 3 partitions, and 4 are wanted"):
        await Topics(options).ensure(plan(name, partitions=4))
    await altered(options, name, {"retention.ms": "1000", "cleanup.policy": "delete"})
    with pytest.raises(TopicUnfit, match=r"retention.ms is 1000.*--add-config retention.ms=-1"):
        await Topics(options).ensure(plan(name, partitions=3))
    await altered(options, name, {"cleanup.policy": "compact"})
    with pytest.raises(TopicUnfit, match=r"cleanup.policy is compact, where delete is wanted"):
        await Topics(options).ensure(plan(name, partitions=3))


async def altered(options: dict[str, Any], name: str, config: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, config)])
    finally:
        await admin.close()


class Unfinished:
    """Answers that a producer's last transaction is not finished yet, for a while or for good.

    So brokers do until its markers are in all partitions, which takes them seconds for hundreds of new ones.
    """

    def __init__(self, one: TransactionalProducer, *, seconds: float) -> None:
        assert one._kafka is not None
        client = one._kafka.client
        self._send, self._until = client.send, asyncio.get_running_loop().time() + seconds
        client.send = self

    async def __call__(self, node: int, request: Any, **more: Any) -> Any:
        is_over = asyncio.get_running_loop().time() > self._until
        if is_over or not isinstance(request, AddPartitionsToTxnRequest):
            return await self._send(node, request, **more)
        code = ConcurrentTransactions.errno
        return SimpleNamespace(
            errors=[(topic, [(one, code) for one in numbers]) for topic, numbers in request._topics]
        )


async def test_a_transaction_waits_for_the_end_of_the_one_before_it_beyond_its_own_deadline(
    options: dict[str, Any], topic: str
) -> None:
    one = TransactionalProducer(topic, options=options, compression=None, timeout_factor=0.2)
    await one.init_transactions()
    try:
        await written(one, topic, b"1")
        Unfinished(one, seconds=3 * one.deadline)
        await written(one, topic, b"2")
    finally:
        await one.discard()
    assert await values_in(options, topic) == [b"1", b"2"]


async def test_an_end_that_is_never_written_is_no_reason_for_smaller_transactions(
    options: dict[str, Any], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.MARKERS_TIMEOUT", 2.0)
    result: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: result.append(context))
    one = TransactionalProducer(topic, options=options, compression=None, timeout_factor=0.1)
    await one.init_transactions()
    Unfinished(one, seconds=60)
    with pytest.raises(KafkaLost, match="the previous transaction is not finished") as raised:
        await written(one, topic, b"2")
    assert not isinstance(raised.value, KafkaSlow)
    await one.discard()
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert result == []


async def test_an_id_whose_last_transaction_cannot_end_is_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.UNFINISHED_SECONDS", 600.0)
    # What waits in this broker for the end of all transactions would wait forever.
    with own_stack(tmp_path / "servers", ("kafka",)) as own:
        options = {"bootstrap_servers": own.kafka}
        await Topics(options).ensure(plan("rows"))
        await never_ended(options, "ours")
        await spare_taken(options, "ours", is_ours=True)
        # Another process may still use the id of a young transaction; this one is an hour old.
        await never_ended(options, "old")
        clock = time.time
        monkeypatch.setattr("connectors.kafka.producer.time.time", lambda: clock() + 3600)
        await spare_taken(options, "old", is_ours=False)
        monkeypatch.undo()
        assert await values_in(options, "rows") == [b"ours", b"old"]


async def never_ended(options: dict[str, Any], name: str) -> None:
    """Commit a transaction of this id in a topic of this name, whose broker refuses the markers."""
    many = 40
    await Topics(options).ensure(plan(name, partitions=many))
    one = TransactionalProducer(name, options=options, compression=None, has_spare=True)
    await one.init_transactions()
    async with one.transaction() as kafka:
        for number in range(many):
            await (await kafka.send(name, key=b"k", value=b"1", partition=number))
        # Markers that are a millisecond old are too old now.
        await altered(options, name, {"message.timestamp.before.max.ms": "0"})
        await refuses_old_records(options, name)
    await one.discard()


async def refuses_old_records(options: dict[str, Any], name: str) -> None:
    """Wait until the broker applies the setting."""
    async with AIOKafkaProducer(**options) as kafka:
        with contextlib.suppress(InvalidTimestampError):
            while True:
                await kafka.send_and_wait(name, b"old", partition=0, timestamp_ms=1)


async def spare_taken(options: dict[str, Any], name: str, *, is_ours: bool) -> None:
    """Take over an id, and publish by its spare one."""
    one = TransactionalProducer(
        name, options=options, compression=None, has_spare=True, is_ours=is_ours
    )
    await one.init_transactions()
    try:
        assert one._kafka is not None
        assert one._kafka._txn_manager.transactional_id == f"{name}.spare"
        await written(one, "rows", name.encode())
    finally:
        await one.discard()


async def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for_until_the_deadline(
    options: dict[str, Any], topic: str
) -> None:
    # Its deadline is ten minutes.
    one = TransactionalProducer(topic, options=options, compression=None, timeout_factor=60.0)
    await one.init_transactions()
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        await written(one, topic, b"1")
        await admin.delete_topics([topic])
        with pytest.raises(KafkaLost, match=f"not in Kafka any more: {topic}"):
            await written(one, topic, b"2")
    finally:
        await admin.close()
        await one.discard()
