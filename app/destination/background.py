"""Work that goes on beside other work, so that a takeover waits for the longest of them and not for their sum.

The law: nobody waits at a block's end for what was begun beside it; it is told to end, and its error is raised
where it is waited for. A thread cannot be told: one that may wait long for a server is one of its own, whose
answer nobody takes any more, and neither other threads nor the process's end wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_SECONDS_TO_END = 1.0
"""Until a work that was told to end is told again."""


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Begin some work; what is not through at the block's end is given up."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        # A library may take a cancellation for a failure of its own, and the work go on to another try.
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_SECONDS_TO_END)
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()


async def in_its_own_thread(work: Callable[[], T]) -> T:
    """What some work returns that may block for long; the threads that all share are not held by it."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=run, name="asks a server", daemon=True).start()
    return await asyncio.wrap_future(answer)
