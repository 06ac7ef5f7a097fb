"""Background work: a task that blocks for long does not hold up the others."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.worker.destination.background import beside, in_its_own_thread


async def test_what_blocks_for_long_holds_none_of_the_threads_that_all_share() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    through = threading.Event()
    async with beside(in_its_own_thread(lambda: through.wait(10))) as asked:
        async with asyncio.timeout(2):
            assert await asyncio.to_thread(lambda: "at once") == "at once"
        through.set()
        assert await asked


async def test_work_that_swallows_its_cancellation_is_cancelled_again() -> None:
    tries: list[str] = []

    async def work() -> None:
        while True:
            tries.append("asked")
            with contextlib.suppress(asyncio.CancelledError if len(tries) == 1 else OSError):
                await asyncio.Event().wait()

    async with asyncio.timeout(20):
        async with beside(work()):
            await asyncio.sleep(0)
    assert tries == ["asked", "asked"]


async def test_its_error_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        await in_its_own_thread(work)


def test_neither_a_block_nor_the_end_of_the_process_waits_for_it() -> None:
    program = """
import asyncio, time
from app.worker.destination.background import beside, in_its_own_thread

async def main():
    async with beside(in_its_own_thread(lambda: time.sleep(30))):
        await asyncio.sleep(0.05)

asyncio.run(main())
"""
    began = time.monotonic()
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=25)
    assert time.monotonic() - began < 20
