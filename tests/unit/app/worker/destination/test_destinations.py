"""The preparations of a worker before it becomes a candidate."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from app import metrics
from app.worker.destination import destinations
from app.worker.destination.destinations import Destinations
from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from app.worker.status import DestinationStatus, State
from connectors.errors import KafkaLost
from tables.state.operator_requests import CONTROL, Control, DesiredState


class FakeSettings(SimpleNamespace):
    """Settings of which only the destinations change."""

    model_fields: ClassVar[dict[str, Any]] = {}

    def model_copy(self, *, update: dict[str, Any]) -> FakeSettings:
        return FakeSettings(**{**vars(self), **update})


def worker(installation: Any) -> Destinations:
    one = SimpleNamespace(decoders=2)
    settings = FakeSettings(
        destinations={"shop": one},
        kafka=SimpleNamespace(bootstrap_servers="kafka-1:9092"),
        worker=SimpleNamespace(id="w", advertised_address=""),
    )
    made = Destinations(
        cast(Any, settings),
        lambda *_: cast(Any, SimpleNamespace(prepare=lambda _known: None, has_leader=True)),
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
    monkeypatch.setattr(destinations, "_PREPARE_SECONDS", 0.05)
    monkeypatch.setattr(FORK_SERVER, "ready", slow)
    made = worker(installation)
    with caplog.at_level(logging.WARNING):
        await made._prepare()
    (record,) = caplog.records
    assert says in record.getMessage()
    # It leads all the same.
    assert made._is_ready


class Obedient:
    """A unit of work that takes note of requests."""

    def __init__(self) -> None:
        self.obeyed: list[Control | str] = []

    @property
    def has_leader(self) -> bool:
        return not self.obeyed or cast(Control, self.obeyed[-1]).has_leader

    def obey(self, control: Control) -> bool:
        self.obeyed.append(control)
        return True

    learn = obey

    def rest(self) -> None:
        self.obeyed.insert(0, "rests")


def test_a_request_to_a_merge_is_passed_on_and_to_an_unknown_one_changes_nothing() -> None:
    made = worker(at_once)
    made._is_ready = True
    merge = Obedient()
    made.units = {"merge.trade": cast(Any, merge)}
    assert made.wanted() == ["shop", "merge.trade"]
    pause = Control(destination="merge.trade", desired=DesiredState.PAUSE, offset=4)
    made.notify(CONTROL, pause)
    made.notify(CONTROL, pause)
    assert merge.obeyed == [pause]
    assert made.wanted() == ["shop", "merge.trade"]
    stop = Control(destination="merge.trade", desired=DesiredState.STOP, offset=5)
    made.notify(CONTROL, stop)
    assert merge.obeyed == ["rests", pause, stop]
    assert made.wanted() == ["shop"]
    # A merge that only other workers have in their settings.
    made.notify(CONTROL, Control(destination="merge.other", desired=DesiredState.PAUSE, offset=6))
    assert merge.obeyed == ["rests", pause, stop]


async def test_a_merge_that_was_stopped_before_this_worker_started_is_not_led() -> None:
    stop = Control(destination="merge.trade", desired=DesiredState.STOP, offset=4)

    async def known() -> list[Control]:
        return [stop]

    made = worker(at_once)
    made._known = known
    merge = Obedient()
    made.units = {"merge.trade": cast(Any, merge)}
    await made._load_controls()
    assert merge.obeyed == ["rests", stop]


async def test_a_destination_that_is_removed_from_the_settings_exports_nothing_any_more() -> None:
    made, status, is_led = worker(at_once), DestinationStatus("removed"), asyncio.Event()

    async def lead(_: object) -> None:
        status.show(State.RUNNING)
        is_led.set()
        try:
            await asyncio.sleep(60)
        finally:
            status.show(State.STANDBY)

    def state() -> list[str]:
        return [
            sample.labels["state"]
            for family in metrics.STATE.collect()
            for sample in family.samples
            if sample.labels["destination"] == "removed"
        ]

    made._settings.destinations["removed"] = cast(Any, None)
    made._all["removed"] = cast(Any, SimpleNamespace(lead=lead))
    leading = asyncio.create_task(made.lead("removed", cast(Any, None)))
    await is_led.wait()
    assert state() == ["RUNNING"]
    made._load = lambda: cast(Any, made._settings.model_copy(update={"destinations": {}}))
    made.reload()
    leading.cancel()
    await asyncio.wait([leading])
    assert state() == []
    # One that was not led here was shown, too.
    made._settings.destinations["removed"] = cast(Any, None)
    made._all["removed"] = cast(Any, None)
    status.show(State.STANDBY)
    made.reload()
    assert state() == []
