"""The preparations of a worker before it becomes a candidate."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from app import metrics
from app.worker.coordination.zookeeper_lease import PermanentLease
from app.worker.destination import destinations
from app.worker.destination.destination import Destination
from app.worker.destination.destinations import Acknowledge, Destinations
from app.worker.destination.plan import Failover, Plan
from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from app.worker.process.journal_agent import Notices
from app.worker.status import DestinationStatus, State
from connectors.errors import KafkaLost
from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry
from tables.journal_kind import Kind
from tables.state.cursor import Claimed
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.operator_requests import (
    CONTROL,
    OUTCOME,
    Applied,
    Control,
    DesiredState,
    applied_in,
    outcome_note,
)
from tables.state.quarantine import RESOLUTION


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


async def broken() -> str:
    raise AssertionError("of a library")


async def test_an_unforeseen_error_of_the_preparations_is_reported_and_the_worker_leads_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FORK_SERVER, "ready", lambda: None)
    made = worker(broken)
    await made._prepare()
    assert made._is_ready
    (record,) = caplog.records
    assert "Unforeseen" in record.getMessage()
    assert "AssertionError: of a library" in record.getMessage()
    assert record.exc_info is not None


async def test_an_unforeseen_error_does_not_end_the_wait_for_an_immediate_takeover(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FORK_SERVER, "ready", lambda: None)
    made = worker(broken)
    made.tail = cast(Any, SimpleNamespace(placed=at_once))
    assert not await made._could_lead()
    assert not await made._could_lead()
    # The wait is repeated each second; the log has the error once.
    (record,) = caplog.records
    assert "Unforeseen" in record.getMessage()
    made._installation = cast(Any, at_once)
    assert await made._could_lead()


async def test_an_unforeseen_error_of_the_requests_from_before_the_start_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = worker(at_once)
    made._known = cast(Any, broken)
    await made._load_controls()
    assert made._has_controls.is_set()
    assert "Unforeseen" in caplog.text


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


class Scene:
    """One worker, with the destination's leader set by the test."""

    def __init__(self) -> None:
        plan = SimpleNamespace(
            name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
        )
        self.destination = Destination(cast(Plan, plan), MemoryCheckpoint())
        self.here, self.vacant, self.coordination = True, False, cast(Any, {})
        self.refuses = 0
        self.refusal: Exception = KafkaLost("no broker answers")
        self.said: list[Applied] = []
        self.heard = asyncio.Event()
        leadership = SimpleNamespace(
            why=lambda _: {"here": self.here, "vacant": self.vacant},
            to_json=lambda: self.coordination,
        )
        self.answers = Acknowledge(
            worker="a",
            address="a:1",
            append=self._append,
            units=lambda: {"shop": self.destination},
            leadership=lambda: cast(Any, leadership),
        )

    async def _append(self, _name: str, note: Entry) -> None:
        if self.refuses:
            self.refuses -= 1
            raise self.refusal
        self.said.append(applied_in(StoredRecord(*note, 9)))
        self.heard.set()

    def notify(self, kind: Kind[Any], notice: Any) -> None:
        """The position read by the tail."""
        if kind is OUTCOME:
            self.answers.record_applied(notice)
        else:
            self.destination.notify(kind, notice)

    def asked(self, desired: DesiredState, offset: int = 5, restart: str = "") -> None:
        control = Control(
            destination="shop", desired=desired, by="me", restart=restart, offset=offset
        )
        self.destination.obey(control)

    def shows(self, state: State, error: str | None = None) -> None:
        """Sets the state shown after one pass of the destination's leadership."""
        self.destination._signals.requests.is_heeded = True
        self.destination.status.show(state, error)

    async def states(self) -> list[str]:
        """All reports, after enough time for them."""
        for _ in range(3):
            for name, one in self.answers.units().items():
                await self.answers._answer(name, one)
        return [one.state for one in self.said]


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_a_pause_is_said_once_it_is_reached_and_only_once(scene: Scene) -> None:
    scene.destination.status.show(State.RUNNING, None)
    scene.asked(DesiredState.PAUSE)
    assert await scene.states() == []
    scene.shows(State.PAUSED, "pause, requested by me")
    assert await scene.states() == ["PAUSED"]
    assert (scene.said[0].worker, scene.said[0].address, scene.said[0].request) == ("a", "a:1", 5)


async def test_a_restart_is_not_reached_by_the_run_before_it(scene: Scene) -> None:
    scene.shows(State.RUNNING)
    scene.asked(DesiredState.RUN, restart="again")
    assert await scene.states() == []
    scene.shows(State.STARTING)
    assert await scene.states() == []
    scene.shows(State.RETRYING, "KafkaLost: 1")
    scene.shows(State.RETRYING, "KafkaLost: 2")
    assert await scene.states() == ["RETRYING"]
    scene.shows(State.FAILED, "PositionGone: so")
    assert await scene.states() == ["RETRYING", "FAILED"]
    assert scene.said[-1].error == "PositionGone: so"


async def test_what_runs_already_is_resumed_at_once(scene: Scene) -> None:
    scene.shows(State.RUNNING)
    scene.asked(DesiredState.RUN)
    assert await scene.states() == ["RUNNING"]


async def test_only_who_leads_says_that_it_is_paused(scene: Scene) -> None:
    scene.here = False
    scene.asked(DesiredState.PAUSE)
    scene.shows(State.PAUSED)
    assert await scene.states() == []


async def test_a_stop_is_said_once_nobody_leads_and_first_by_who_led(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.asked(DesiredState.STOP)
    assert await scene.states() == []
    scene.here = False
    assert await scene.states() == []
    scene.vacant = True
    assert await scene.states() == ["STOPPED"]
    # Another worker, which did not lead it, lets that one go first.
    other = Scene()
    other.here, other.vacant = False, True
    other.asked(DesiredState.STOP)
    assert await other.states() == []
    monkeypatch.setattr(destinations, "_OTHERS_SECONDS", 0.0)
    assert await other.states() == ["STOPPED"]


async def test_what_another_has_answered_for_good_is_not_answered_again(scene: Scene) -> None:
    scene.shows(State.RUNNING)
    scene.asked(DesiredState.RUN)
    said = Applied(
        destination="shop", worker="b", address="", request=5, state="RETRYING", error="x",
        epoch=3, ts_ms=1,
    )  # fmt: skip
    notices = Notices(scene.notify)
    notices.take(2, StoredRecord(*outcome_note(said), 7))
    notices.take(2, StoredRecord(b"applied/shop/b", b"{ no JSON", 8))
    notices.take(2, StoredRecord(b"resolution/shop/d/t", b'{"format": 1, "table": 7}', 8))
    notices.take(2, StoredRecord(b"control/shop/wish", b'{"format": 1, "wish": "dance"}', 8))
    assert await scene.states() == ["RUNNING"]
    scene.asked(DesiredState.RUN, offset=6)
    final = replace(said, request=6, state="RUNNING")
    notices.take(2, StoredRecord(*outcome_note(final), 9))
    assert await scene.states() == ["RUNNING"]


async def test_without_zookeeper_a_worker_that_another_has_followed_says_nothing(
    scene: Scene,
) -> None:
    scene.coordination = None
    scene.destination._signals.led = 4
    scene.destination.observe(Claimed(destination="shop", epoch=5))
    scene.asked(DesiredState.PAUSE)
    scene.shows(State.PAUSED)
    assert await scene.states() == []
    scene.destination._signals.led = 6
    assert await scene.states() == ["PAUSED"]


async def test_an_answer_that_kafka_does_not_take_is_given_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(destinations, "_GLANCE_SECONDS", 0.0)
    scene.refuses = 2
    scene.shows(State.RUNNING)
    scene.asked(DesiredState.RUN)
    task = asyncio.create_task(scene.answers.run())
    async with asyncio.timeout(10):
        await scene.heard.wait()
    task.cancel()
    await asyncio.wait([task])
    assert [one.state for one in scene.said] == ["RUNNING"]


async def test_an_unforeseen_error_does_not_end_the_writing_of_outcomes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(destinations, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(destinations, "_GLANCE_SECONDS", 0.0)
    scene.refuses, scene.refusal = 2, AssertionError("of a library")
    scene.shows(State.RUNNING)
    scene.asked(DesiredState.RUN)
    task = asyncio.create_task(scene.answers.run())
    async with asyncio.timeout(10):
        await asyncio.wait(
            [task, asyncio.create_task(scene.heard.wait())], return_when=asyncio.FIRST_COMPLETED
        )
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert [one.state for one in scene.said] == ["RUNNING"]
    assert caplog.text.count("Unforeseen") == 1


async def test_a_request_ends_what_a_failed_destination_waits_for(scene: Scene) -> None:
    waiting = asyncio.create_task(scene.destination._signals.requests.wait(PermanentLease()))
    await asyncio.sleep(0)
    scene.destination.notify(RESOLUTION, SimpleNamespace(destination="shop"))
    async with asyncio.timeout(5):
        await waiting
