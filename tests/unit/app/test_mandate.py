"""A run writes while it may, and ends between two transactions."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from app.lease import Unshared
from app.mandate import Leaving, Mandate


async def test_a_run_that_writes_ends_behind_its_transaction() -> None:
    mandate, done = Mandate(), []

    async def run() -> None:
        while True:
            async with mandate.writing():
                await asyncio.sleep(0.1)
                done.append("written")
            mandate.check()

    task = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    await mandate.end(task)
    assert done == ["written"]
    assert isinstance(task.exception(), Leaving)


async def test_a_run_that_waits_ends_at_once() -> None:
    mandate = Mandate()
    task = asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    await asyncio.wait_for(mandate.end(task), 1)
    assert task.cancelled()


async def test_nothing_new_is_written_by_a_run_that_leaves() -> None:
    mandate = Mandate(is_leaving=True)
    with pytest.raises(Leaving):
        async with mandate.writing():
            pass


class Handed(Unshared):
    """Takes note of when it is handed over."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    async def hand_over(self) -> None:
        self.told.append("handed over")


async def test_the_lead_is_handed_over_behind_the_transaction_and_before_what_is_torn_down() -> (
    None
):
    told: list[str] = []
    mandate = Mandate(lease=Handed(told))

    async def run() -> None:
        try:
            async with mandate.writing():
                await asyncio.sleep(0.1)
                told.append("written")
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.1)
            told.append("torn down")

    task = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    await mandate.end(task, hand_over=True)
    assert told == ["written", "handed over", "torn down"]


async def test_a_run_of_later_may_write_though_the_end_of_this_one_was_cut_short() -> None:
    mandate = Mandate()

    async def run() -> None:
        async with mandate.writing():
            await asyncio.sleep(3600)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    end = asyncio.create_task(mandate.end(task))
    await asyncio.sleep(0.01)
    end.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await end
    await asyncio.wait([task])
    assert task.cancelled()
    async with mandate.writing():
        pass
