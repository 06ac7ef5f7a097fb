"""What a subscriber lets into its program's log: each fault once, and nothing that aiokafka repeats."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from aqueduct_client import kafka
from aqueduct_client.errors import BrokersLost
from aqueduct_client.kafka import quiet
from aqueduct_client.subscriber import Outage

COORDINATOR = "aiokafka.consumer.group_coordinator"


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    # The worker's program raises it, which other tests run.
    caplog.set_level(logging.INFO, "aiokafka")


def test_aiokafka_logs_nothing_of_a_subscriber_and_all_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger(COORDINATOR)

    async def of_a_task() -> None:
        log.error("Group Coordinator Request failed: %s", "inherited")

    async def main() -> None:
        with quiet():
            log.error("Group Coordinator Request failed: %s", "within")
            task = asyncio.create_task(of_a_task())
        await task
        log.error("Group Coordinator Request failed: %s", "of another client")

    asyncio.run(main())
    assert [one.getMessage() for one in caplog.records] == [
        "Group Coordinator Request failed: of another client"
    ]


def test_aiokafka_logs_all_while_the_client_is_debugged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "aqueduct_client"), quiet():
        logging.getLogger(COORDINATOR).warning("Marking the coordinator dead")
    assert "Marking the coordinator dead" in caplog.text


def test_an_outage_is_logged_once_and_once_more_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage()
    for _ in range(2):
        for number in range(5):
            outage.failed(BrokersLost(f"attempt {number}"))
        outage.over()
        outage.over()
    first, over, *again = [one.getMessage() for one in caplog.records]
    assert "Kafka does not answer: attempt 0" in first
    assert over.startswith("Kafka answers again, after 0 s")
    assert again == [first, over]


def test_an_error_has_its_name_once() -> None:
    with pytest.raises(BrokersLost) as caught, kafka.translated():
        raise KafkaConnectionError("Unable to bootstrap")
    assert str(caught.value).startswith(
        "Kafka does not answer: KafkaConnectionError: Unable to bootstrap."
    )
    with (
        pytest.raises(BrokersLost, match="Kafka does not answer: TimeoutError"),
        kafka.translated(),
    ):
        raise TimeoutError


async def test_connections_are_closed_where_a_broker_does_not_answer_a_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "_END_SECONDS", 0.01)
    closed = []

    async def close() -> None:
        closed.append(True)

    async def stop() -> None:
        await asyncio.Event().wait()

    consumer: Any = SimpleNamespace(stop=stop, _client=SimpleNamespace(close=close))
    await kafka._stopped(consumer)
    assert closed == [True]
