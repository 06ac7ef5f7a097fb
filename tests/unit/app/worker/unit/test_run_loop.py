"""A unit of work over its runs: what operators' requests do to it, and what it shows meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from app import metrics
from app.worker.coordination.zookeeper_lease import PermanentLease
from app.worker.merge.plan import MergeStatus
from app.worker.status import State
from app.worker.unit import run_loop as module
from app.worker.unit.retry_policy import ErrorPolicy
from app.worker.unit.run_loop import Unit
from connectors.errors import Fenced, JournalOutdated, RunRestarts, Unforeseen
from tables.state.operator_requests import Control, DesiredState
from tests.unit.app.worker.merge.test_shares import PLAN

NAME = PLAN.unit


def asked(desired: DesiredState, offset: int, *, restart: str = "") -> Control:
    """An operator's request."""
    return Control(destination=NAME, desired=desired, restart=restart, by="me", offset=offset)


def value(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, labels)


class Scene:
    """A merge whose runs write one transaction each, and then wait."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.errors: list[Exception] = []
        self.begun_with: list[str | None] = []
        """The error that was shown as each run began."""
        self.status, self.policy = MergeStatus(PLAN), ErrorPolicy()
        self.unit = Unit(
            name=NAME,
            status=self.status,
            run=self.run,
            policy=lambda: self.policy,
            measure=self.status.measure,
        )

    async def led(self, until: State, *errors: Exception) -> None:
        """Lead it; its first runs end with these errors."""
        self.errors += errors
        self.leading = asyncio.create_task(self.unit.lead(PermanentLease()))
        await self.until(until)

    async def run(self) -> None:
        self.events.append("run")
        self.begun_with.append(self.status.error)
        if self.errors:
            raise self.errors.pop(0)
        async with self.unit.permit.writing():
            self.status.show(State.RUNNING)
            await asyncio.sleep(0.02)
            self.events.append("committed")
        await asyncio.sleep(3600)

    async def until(self, state: State, *, runs: int = 0) -> None:
        """Until that many runs have begun, too."""
        async with asyncio.timeout(10):
            while self.shown() is not state or self.events.count("run") < runs:  # noqa: ASYNC110 - the status announces nothing
                await asyncio.sleep(0.005)

    def shown(self) -> State:
        return self.status.state


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    made.leading.cancel()
    await asyncio.wait([made.leading])


async def test_a_pause_ends_after_the_open_transaction_and_lasts_until_it_is_resumed(
    scene: Scene,
) -> None:
    await scene.led(State.RUNNING)
    assert scene.unit.obey(asked(DesiredState.PAUSE, 1))
    assert scene.unit.outcome(here=True, alone=False) is None
    await scene.until(State.PAUSED)
    assert scene.events == ["run", "committed"]
    assert scene.status.error == "pause, requested by me"
    assert scene.unit.to_json()["wish"] == "pause"
    assert scene.unit.outcome(here=True, alone=True) == ("PAUSED", "pause, requested by me", 0)
    # The same request again, or an older one, is none.
    assert not scene.unit.obey(asked(DesiredState.PAUSE, 2))
    assert not scene.unit.obey(asked(DesiredState.RUN, 1))
    await asyncio.sleep(0.02)
    assert scene.events == ["run", "committed"]
    assert scene.unit.obey(asked(DesiredState.RUN, 3))
    await scene.until(State.RUNNING)
    assert scene.unit.outcome(here=True, alone=True) == ("RUNNING", None, 0)
    assert scene.events[2] == "run"


async def test_a_pause_shows_its_state_and_a_lag_that_grows(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MEASURE_SECONDS", 0.01)
    await scene.led(State.RUNNING)
    assert value("aqueduct_destination_up", destination=NAME) == 1
    shard = scene.status.shards["a"]
    shard.reached_ms = int(1000 * (time.time() - 50))
    shard.held, shard.unread = 7, 3
    scene.unit.obey(asked(DesiredState.PAUSE, 1))
    await scene.until(State.PAUSED)
    assert value("aqueduct_destination_state", destination=NAME, state="PAUSED") == 1
    assert value("aqueduct_destination_up", destination=NAME) == 0
    # What was read is not held any more, and how much is unread is not known.
    shown = scene.status.to_json()["shards"]["a"]
    assert (shown["held"], shown["unread"]) == (0, None)
    found = []
    for _ in range(2):
        await asyncio.sleep(0.05)
        found.append(value("aqueduct_merge_lag_seconds", merge=PLAN.name, destination="a") or 0)
    assert 50 <= found[0] < found[1]
    scene.leading.cancel()
    await asyncio.wait([scene.leading])
    assert value("aqueduct_destination_state", destination=NAME, state="STANDBY") == 1
    assert value("aqueduct_merge_lag_seconds", merge=PLAN.name, destination="a") is None


async def test_a_restart_ends_the_wait_of_one_that_has_failed(scene: Scene) -> None:
    await scene.led(State.FAILED, JournalOutdated("x"), JournalOutdated("y"))
    assert scene.unit.obey(asked(DesiredState.RUN, 1, restart="once"))
    await scene.until(State.FAILED, runs=2)
    outcome = scene.unit.outcome(here=True, alone=False)
    assert outcome is not None
    assert outcome[0] == "FAILED"
    assert ": y [" in str(outcome[1])
    assert scene.unit.obey(asked(DesiredState.RUN, 2, restart="twice"))
    await scene.until(State.RUNNING)


async def test_an_error_that_is_retried_is_shown_until_the_next_run_has_made_progress(
    scene: Scene,
) -> None:
    await scene.led(State.RETRYING, RunRestarts("once"))
    assert f": once [destination={NAME}]" in str(scene.status.error)
    await scene.until(State.RUNNING)
    assert scene.status.error is None


async def test_one_that_is_stopped_is_led_no_more(scene: Scene) -> None:
    await scene.led(State.RUNNING)
    scene.unit.obey(asked(DesiredState.STOP, 1))
    assert not scene.unit.has_leader
    async with asyncio.timeout(10):
        await asyncio.wait([scene.leading])
    assert scene.events == ["run", "committed"]
    assert (scene.status.state, scene.status.error) == (State.STOPPED, "stop, requested by me")
    assert scene.unit.outcome(here=False, alone=True) == ("STOPPED", None, 0)


async def test_a_fenced_unit_shows_who_took_it_over_until_it_is_stopped(scene: Scene) -> None:
    await scene.led(State.FENCED, Fenced("another one leads it"))
    scene.leading.cancel()
    await asyncio.wait([scene.leading])
    assert scene.shown() is State.FENCED
    scene.unit.obey(asked(DesiredState.STOP, 1))
    scene.unit.rest()
    assert scene.shown() is State.STOPPED
    assert value("aqueduct_destination_state", destination=NAME, state="FENCED") in (None, 0)


@pytest.mark.remedy("Unforeseen")
async def test_an_error_that_nothing_foresees_is_retried_and_ends_by_a_pause_at_the_latest(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.led(State.RETRYING, KeyError("number"))
    assert "Unforeseen" in str(scene.status.error)
    assert f"python -m app destination pause {NAME}" in str(scene.status.error)
    assert any(one.exc_info for one in caplog.records)
    await scene.until(State.RUNNING)
    scene.errors = [TypeError("unhashable") for _ in range(99)]
    assert scene.unit.obey(asked(DesiredState.RUN, 1, restart="r"))
    caplog.clear()
    await scene.until(State.RETRYING, runs=4)
    assert not scene.leading.done()
    # The log has it once, however often it is tried.
    assert sum(bool(one.exc_info) for one in caplog.records) <= 1
    assert scene.unit.obey(asked(DesiredState.PAUSE, 2))
    await scene.until(State.PAUSED)


async def test_another_worker_may_take_over_what_ends_by_such_an_error_which_is_shown_on(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    counted = {"destination": NAME, "error": "Unforeseen"}
    before = value("aqueduct_errors_total", **counted) or 0
    lease = PermanentLease()
    lease.shared = True
    for _ in range(2):
        scene.errors = [KeyError("number")]
        scene.leading = asyncio.create_task(scene.unit.lead(lease))
        with pytest.raises(Unforeseen):
            await scene.leading
        assert scene.shown() is State.STANDBY
        assert str(scene.status.error).startswith("Unforeseen: ")
        assert "KeyError: 'number'" in str(scene.status.error)
    assert value("aqueduct_errors_total", **counted) == before + 2
    # The log has it once, also of one that is led again and again.
    assert sum(bool(one.exc_info) for one in caplog.records) == 1
    # It is shown until a run makes progress.
    scene.leading = asyncio.create_task(scene.unit.lead(lease))
    await scene.until(State.RUNNING)
    assert "KeyError: 'number'" in str(scene.begun_with[-1])
    assert scene.status.error is None
