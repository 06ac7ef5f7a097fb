"""How far the DDL topics are read: past each statement that may precede a visible row."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.drops_and_renames import topic
from spark_sink.batch.drops_and_renames.topic import KafkaDdl
from spark_sink.settings.model import Settings

AT = ("aq.__ddl.shop", 0)
Ends = dict[tuple[str, int], int]


class Kafka:
    """A DDL topic of which more and more is committed."""

    def __init__(self, written: Ends, *committed: Ends) -> None:
        self.ends, self.committed = written, list(committed)

    def written(self, _: str) -> Ends:
        return self.ends

    def ranges(self, _: str) -> tuple[Ends, Ends]:
        return dict.fromkeys(self.ends, 0), self.committed.pop(0)


def settled(
    monkeypatch: pytest.MonkeyPatch, kafka: Kafka, *, seconds: float = 0.0
) -> tuple[Any, list[float]]:
    @contextmanager
    def admin(*_: object) -> Iterator[Kafka]:
        yield kafka

    monkeypatch.setattr(topic, "admin", admin)
    times = iter(range(100))
    slept: list[float] = []
    read = KafkaDdl(
        cast(SparkSession, None),
        Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse="/nowhere"),
        clock=lambda: seconds * next(times),
        sleep=slept.append,
    )
    return read.settled()[1], slept


def test_a_statement_that_is_written_but_not_decided_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka({AT: 5}, {AT: 3}, {AT: 3}, {AT: 6})
    assert settled(monkeypatch, kafka) == ({AT: 6}, [0.1, 0.1])
    assert caplog.records == []


def test_a_transaction_that_stays_open_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    kafka = Kafka({AT: 5}, *([{AT: 3}] * 4), {AT: 5})
    assert settled(monkeypatch, kafka, seconds=15)[0] == {AT: 5}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "neither committed nor aborted" in line
    assert "topic=aq.__ddl.shop" in line


def test_without_a_topic_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settled(monkeypatch, Kafka({})) == ({}, [])
