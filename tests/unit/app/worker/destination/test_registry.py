"""The preparations of a worker before it becomes a candidate."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination import registry
from app.worker.destination.registry import Destinations
from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from connectors.errors import KafkaLost


def worker(installation: Any) -> Destinations:
    one = SimpleNamespace(decoders=2)
    settings = SimpleNamespace(
        destinations={"shop": one},
        kafka=SimpleNamespace(bootstrap_servers="kafka-1:9092"),
        worker=SimpleNamespace(id="w", advertised_address=""),
    )
    made = Destinations(
        cast(Any, settings),
        lambda *_: cast(Any, SimpleNamespace(prepare=lambda _known: None)),
        load=cast(Any, None),
        plan=cast(Any, None),
        installation=installation,
        append=cast(Any, None),
        known=cast(Any, None),
    )
    made.leadership = cast(Any, SimpleNamespace(wake=lambda: None))
    return made


async def silent() -> str:
    await asyncio.sleep(60)
    return ""


async def at_once() -> str:
    return "i"


async def lost() -> str:
    raise KafkaLost("no broker answers")


def slow() -> None:
    raise TimeoutError


@pytest.mark.parametrize(
    ("installation", "says"),
    [
        (
            silent,
            (
                "not ready: the journal, in Kafka at kafka-1:9092: TimeoutError: nothing for 0.05 s. "
                "It is tried again then; see that it answers there if destinations stay RETRYING."
            ),
        ),
        (lost, "in Kafka at kafka-1:9092: KafkaLost: "),
        (
            at_once,
            (
                "not ready: the process that decoders are copies of: TimeoutError: nothing for 0.05 s. "
                "It is tried again then; see whether this machine lacks memory, processes or time if"
            ),
        ),
    ],
)
async def test_what_is_not_ready_is_reported_with_where_it_is_and_what_to_do(
    installation: Any,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(registry, "_PREPARE_SECONDS", 0.05)
    monkeypatch.setattr(FORK_SERVER, "ready", slow)
    made = worker(installation)
    with caplog.at_level(logging.WARNING):
        await made._prepare()
    (record,) = caplog.records
    assert says in record.getMessage()
    # It leads all the same.
    assert made._is_ready
