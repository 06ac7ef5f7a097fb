"""Kafka's absence is reported once, and once when it is over."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from app import metrics
from app.worker.process.kafka_watch import KafkaWatch
from connectors.errors import AqueductError, KafkaDenied, KafkaLost

Check = Callable[[], Awaitable[None]]


def answers(*outcomes: Exception | None) -> Check:
    """A check that has these outcomes, one after the other."""
    left = list(outcomes)

    async def check() -> None:
        outcome = left.pop(0)
        if outcome is not None:
            raise outcome

    return check


async def changes(*outcomes: Exception | None) -> list[AqueductError | None]:
    found: list[AqueductError | None] = []
    watch = KafkaWatch(answers(*outcomes), found.append)
    for _ in outcomes:
        await watch.ask()
    return found


async def test_one_failure_alone_is_no_absence() -> None:
    assert await changes(KafkaLost("x"), None, KafkaLost("x"), None) == []


async def test_an_absence_is_reported_once_and_once_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = [KafkaLost("no broker answers") for _ in range(5)]
    with caplog.at_level(logging.INFO):
        found = await changes(*lost, None, None)
    assert found == [lost[1], None]
    assert len(caplog.records) == 2
    assert "no broker answers" in caplog.text


async def test_another_reason_is_reported_too() -> None:
    lost, denied = KafkaLost("x"), KafkaDenied("y")
    assert await changes(lost, lost, denied, denied, None) == [lost, denied, None]


async def test_what_a_library_raises_unforeseen_counts_as_lost() -> None:
    (found,) = await changes(RuntimeError("odd"), RuntimeError("odd"))
    assert isinstance(found, KafkaLost)
    assert "RuntimeError: odd" in str(found)


async def test_the_metric_follows() -> None:
    await changes(KafkaLost("x"), KafkaLost("x"))
    assert metrics.KAFKA_UP._value.get() == 0
    await changes(KafkaLost("x"), KafkaLost("x"), None)
    assert metrics.KAFKA_UP._value.get() == 1
