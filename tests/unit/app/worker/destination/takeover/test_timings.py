"""A takeover's phases are logged in order, each with its seconds since the beginning."""

from __future__ import annotations

import asyncio

import pytest

from app.worker.destination.background import beside
from app.worker.destination.takeover.timings import Phases


def test_each_phase_is_reported_with_the_time_since_the_beginning() -> None:
    times = iter([100.0, 100.25, 101.5])
    phases = Phases(lambda: next(times))
    assert phases.reached("journal read") == 0.25
    assert phases.reached("source connected") == 1.5
    assert phases.to_text() == "journal read 0.25, source connected 1.50"


async def test_work_beside_a_block_is_given_up_with_it() -> None:
    values = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            values.append("given up")

    async with beside(work()):
        await asyncio.sleep(0)
    assert values == ["given up"]


async def test_an_error_of_work_beside_a_block_is_raised_where_it_is_waited_for() -> None:
    async def work() -> str:
        raise ValueError("of the work")

    async with beside(work()) as task:
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="of the work"):
            await task
    async with beside(work()):
        await asyncio.sleep(0)
