"""A run writes while it may, and ends between two transactions."""

from __future__ import annotations

import asyncio

import pytest

from app.worker.coordination.write_permit import StopRequested, WritePermit
from app.worker.coordination.zookeeper_lease import PermanentLease


async def test_a_run_that_writes_ends_after_its_transaction() -> None:
    permit, done = WritePermit(), []

    async def run() -> None:
        while True:
            async with permit.writing():
                await asyncio.sleep(0.1)
                done.append("written")
            permit.check()

    task = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    await permit.end(task)
    assert done == ["written"]
    assert isinstance(task.exception(), StopRequested)


async def test_a_run_that_waits_ends_at_once() -> None:
    permit = WritePermit()
    task = asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    await asyncio.wait_for(permit.end(task), 1)
    assert task.cancelled()


async def test_nothing_new_is_written_by_a_run_that_leaves() -> None:
    permit = WritePermit(is_leaving=True)
    with pytest.raises(StopRequested):
        async with permit.writing():
            pass


class Handed(PermanentLease):
    """Takes note of when it is handed over."""

    def __init__(self, described: list[str]) -> None:
        super().__init__()
        self.described = described

    async def hand_over(self) -> None:
        self.described.append("handed over")


async def writes_and_waits(permit: WritePermit, described: list[str]) -> None:
    """A run with one transaction, which then waits for more, and takes its time to be torn down."""
    try:
        async with permit.writing():
            await asyncio.sleep(0.1)
            described.append("written")
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.1)
        described.append("torn down")


async def test_the_lead_is_handed_over_after_the_transaction_and_before_what_is_torn_down() -> None:
    result: list[str] = []
    permit = WritePermit(lease=Handed(result))

    task = asyncio.create_task(writes_and_waits(permit, result))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(1):
        await permit.end(task, hand_over=True)
    assert result == ["written", "handed over", "torn down"]


async def test_a_run_that_ends_by_itself_after_its_transaction_is_left_to_tear_down() -> None:
    result: list[str] = []
    permit = WritePermit(lease=Handed(result))

    async def run() -> None:
        try:
            async with permit.writing():
                await asyncio.sleep(0.05)
            permit.check()
        finally:
            await asyncio.sleep(0.05)
            result.append("torn down")

    task = asyncio.create_task(run())
    await asyncio.sleep(0.01)
    await permit.end(task, hand_over=True)
    assert result == ["handed over", "torn down"]
    assert isinstance(task.exception(), StopRequested)


async def test_a_cancelled_task_does_not_cut_the_transaction_of_a_run_that_ends() -> None:
    result: list[str] = []
    permit = WritePermit(lease=Handed(result))

    task = asyncio.create_task(writes_and_waits(permit, result))
    await asyncio.sleep(0.01)
    end = asyncio.create_task(permit.end(task))
    for _ in range(3):
        await asyncio.sleep(0.02)
        end.cancel()
    with pytest.raises(asyncio.CancelledError):
        await end
    assert result == ["written", "handed over", "torn down"]
    permit.begin()
    async with permit.writing():
        pass


async def test_a_run_that_has_lost_the_lead_ends_within_its_transaction() -> None:
    result: list[str] = []
    permit = WritePermit(lease=Handed(result))

    async def run() -> None:
        async with permit.writing():
            await asyncio.sleep(3600)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    end = asyncio.create_task(permit.end(task, hand_over=True))
    await asyncio.sleep(0.01)
    assert not end.done()
    permit.lease.ended.set()
    async with asyncio.timeout(1):
        await end
    assert task.cancelled()
    assert result == []


async def test_a_run_that_waited_in_doubt_writes_nothing_once_it_is_to_leave() -> None:
    certain = asyncio.Event()

    class Doubtful(PermanentLease):
        async def hold(self) -> None:
            await certain.wait()

    permit = WritePermit(lease=Doubtful())
    written = []

    async def run() -> None:
        async with permit.writing():
            written.append("something")

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    end = asyncio.create_task(permit.end(task))
    certain.set()
    await end
    assert written == []
