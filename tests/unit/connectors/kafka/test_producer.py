"""What aiokafka's errors mean to us, and what is left of a producer that somebody gave up."""

import asyncio
import gc
from typing import Any

import pytest
from aiokafka import errors as kafka

from connectors.errors import AqueductError, Fenced, KafkaLost, KafkaRefused, RecordTooLarge
from connectors.kafka.producer import TransactionalProducer, translated


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (kafka.ProducerFenced(), Fenced),
        (kafka.InvalidProducerEpoch(), Fenced),
        (kafka.MessageSizeTooLargeError(), RecordTooLarge),
        (kafka.RecordListTooLargeError(), RecordTooLarge),
        (kafka.TopicAuthorizationFailedError("aq.x"), KafkaRefused),
        (kafka.TransactionalIdAuthorizationFailed(), KafkaRefused),
        (kafka.KafkaTimeoutError(), KafkaLost),
        (kafka.KafkaConnectionError("gone"), KafkaLost),
        (kafka.OutOfOrderSequenceNumber(), KafkaLost),
        (kafka.IllegalOperation("not in a transaction"), KafkaLost),
        (TimeoutError(), KafkaLost),
        (AssertionError("state"), KafkaLost),
        (OSError("unreachable"), KafkaLost),
    ],
)
def test_each_error_has_one_meaning(error: BaseException, meaning: type[AqueductError]) -> None:
    assert type(translated(error)) is meaning


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = Fenced("epoch 4")
    assert translated(error) is error


def test_an_error_that_says_nothing_is_shown_by_its_name() -> None:
    assert "MessageSizeTooLargeError" in str(translated(kafka.MessageSizeTooLargeError()))


def test_a_lost_broker_is_told_with_what_the_client_saw() -> None:
    assert "gone" in str(translated(kafka.KafkaConnectionError("gone")))


async def test_who_gives_up_taking_an_id_over_leaves_no_task_and_no_open_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = asyncio.Event()

    async def silent(client: Any) -> None:
        """As far as aiokafka's own comes with a broker that answers no more."""
        client._sync_task = asyncio.create_task(asyncio.sleep(60), name="a client's own")
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr("aiokafka.client.AIOKafkaClient.bootstrap", silent)
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
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
    assert told == []
