"""The takeover of an id, and the state left by an abandoned producer."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.errors import KafkaLost
from connectors.kafka import producer as producers
from connectors.kafka.producer import TransactionalProducer, too_few
from tests.kafka_server import KafkaServer, kafka_server


async def test_who_gives_up_taking_an_id_over_leaves_no_task_and_no_open_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = asyncio.Event()

    async def silent(client: Any) -> None:
        """A producer as aiokafka leaves it when a broker stops answering."""
        client._sync_task = asyncio.create_task(asyncio.sleep(60), name="a client's own")
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr("aiokafka.client.AIOKafkaClient.bootstrap", silent)
    result: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: result.append(context))
    producer = TransactionalProducer(
        "i.shop", options={"bootstrap_servers": "127.0.0.1:1"}, compression=None
    )
    taking = asyncio.create_task(producer.init_transactions())
    await waits.wait()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert asyncio.all_tasks() == {asyncio.current_task()}
    del taking
    gc.collect()
    assert result == []


@pytest.mark.parametrize(
    ("replicas", "isr", "is_short"), [(3, 1, True), (3, 0, True), (3, 2, False), (1, 1, False)]
)
def test_partitions_with_one_copy_in_sync_of_three_are_too_few_brokers(
    replicas: int, isr: int, is_short: bool
) -> None:
    one = SimpleNamespace(replicas=[*range(replicas)], isr=[*range(isr)])
    found = too_few(SimpleNamespace(_partitions={"__transaction_state": {7: one}}))
    assert (found is not None) == is_short
    if found is not None:
        assert "__transaction_state [7]" in str(found)


async def test_an_id_is_taken_over_once_a_starting_broker_names_brokers() -> None:
    async with kafka_server(KafkaServer(nameless=3)) as broker:
        producer = TransactionalProducer("i.shop", options=broker.options, compression=None)
        await producer.init_transactions()
        await producer.discard()


@pytest.mark.parametrize("has_spare", [False, True])
async def test_a_broker_that_names_no_broker_is_a_lost_kafka(
    has_spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "ANSWER_TIMEOUT", 0.2)
    async with kafka_server(KafkaServer()) as broker:
        producer = TransactionalProducer(
            "i.shop", options=broker.options, compression=None, has_spare=has_spare
        )
        with pytest.raises(KafkaLost, match="names no broker"):
            await producer.init_transactions()
