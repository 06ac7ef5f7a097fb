"""A run writes while it may, and ends between two transactions."""

from __future__ import annotations

import asyncio

import pytest

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
