"""The supervisor of a led destination: its runs end on a request, also on a second one meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.coordination.lease import PermanentLease
from app.worker.destination.destination import Destination
from app.worker.destination.plan import Failover, Plan
from app.worker.status import State
from app.worker.unit.retry_policy import Decision
from connectors.errors import LeadershipLost, TransactionOpen
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.operator_requests import Control, DesiredState


@dataclass(slots=True)
class Lost(PermanentLease):
    """A lease that can be lost."""

    find_lost_at: float = float("inf")

    def check(self) -> None:
        if self.ended.is_set() or asyncio.get_running_loop().time() > self.find_lost_at:
            raise LeadershipLost("the session is over")


class Scene:
    """A destination whose run is within a transaction, and the outcome of that."""

    def __init__(self) -> None:
        plan = SimpleNamespace(
            name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
        )
        self.destination = Destination(cast(Plan, plan), MemoryCheckpoint())
        self.lease = Lost()
        self.described: list[str] = []
        self.writes = asyncio.Event()
        self.unretrieved: list[dict[str, Any]] = []
        self.destination._run = cast(
            Any, SimpleNamespace(run=self._run, address=None, forget_dead_letters=int)
        )
        self.lead = asyncio.create_task(self.destination.lead(self.lease))

    async def _run(self) -> None:
        permit = self.destination._signals.permit
        try:
            async with permit.writing():
                self.writes.set()
                await asyncio.sleep(0.1)
                permit.lease.check()
                self.described.append("committed")
            permit.check()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.02)
            self.described.append("torn down")

    async def ended(self) -> None:
        """Until it leads no more."""
        await asyncio.wait([self.lead])
        self.described.append("led no more")


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    gc.freeze()  # so that a look for garbage is short
    made = Scene()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: made.unretrieved.append(context)
    )
    await made.writes.wait()
    yield made
    # What it ended with holds the run.
    del made.lead
    gc.collect()
    gc.unfreeze()
    assert made.unretrieved == []


def said(desired: DesiredState, offset: int = 1) -> Control:
    """An operator's request."""
    return Control(
        destination="shop", desired=desired, restart=f"r{offset}", by="me", ts_ms=1, offset=offset
    )


async def test_one_that_is_to_end_while_its_run_ends_finishes_the_transaction_and_the_run(
    scene: Scene,
) -> None:
    assert scene.destination.obey(said(DesiredState.STOP))
    await asyncio.sleep(0.02)
    # What leadership does, as nobody is to lead it any more.
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]


async def test_one_that_is_to_end_while_it_restarts_finishes_them_too(scene: Scene) -> None:
    assert scene.destination.obey(said(DesiredState.RUN))
    await asyncio.sleep(0.02)
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]
    assert scene.lead.cancelled()


async def test_one_that_is_cancelled_leaves_no_error_that_is_never_retrieved(scene: Scene) -> None:
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["committed", "torn down", "led no more"]


async def test_one_that_has_lost_the_lead_waits_for_its_run_though_it_is_cancelled(
    scene: Scene,
) -> None:
    scene.lease.ended.set()
    await asyncio.sleep(0.01)
    scene.lead.cancel()
    await scene.ended()
    assert scene.described == ["torn down", "led no more"]


async def test_the_error_of_a_run_that_has_lost_the_lead_is_no_surprise(scene: Scene) -> None:
    scene.lease.ended.set()
    await scene.ended()
    assert isinstance(scene.lead.exception(), LeadershipLost)
    assert scene.described == ["torn down", "led no more"]


async def test_a_run_that_finds_out_itself_that_the_lead_is_lost_tears_down_undisturbed(
    scene: Scene,
) -> None:
    # Between what it asks before its commit and the end of its tearing down.
    asyncio.get_running_loop().call_later(0.11, scene.lease.ended.set)
    scene.lease.find_lost_at = asyncio.get_running_loop().time() + 0.05
    await scene.ended()
    assert isinstance(scene.lead.exception(), LeadershipLost)
    assert scene.described == ["torn down", "led no more"]


async def test_why_the_last_run_ended_is_shown_until_the_next_has_got_further() -> None:
    plan = SimpleNamespace(
        name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
    )
    destination = Destination(cast(Plan, plan), MemoryCheckpoint())
    shown: list[tuple[str, str | None]] = []

    async def run() -> None:
        shown.append((destination.status.state.value, destination.status.error))
        if len(shown) > 1:
            destination.obey(said(DesiredState.STOP))
        raise TransactionOpen("somebody's")

    policy = SimpleNamespace(decide=lambda _: Decision(State.RETRYING, 0.0))
    destination._run = cast(
        Any, SimpleNamespace(run=run, address=None, policy=policy, forget_dead_letters=int)
    )
    await destination.lead(PermanentLease())
    assert shown[0] == ("STARTING", None)
    state, error = shown[1]
    assert (state, str(error).startswith("TransactionOpen: ")) == ("STARTING", True)
