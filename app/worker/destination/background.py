"""Concurrent work, so that a takeover waits for the longest of its steps and not for their sum.

Invariant: the end of a block cancels the work started beside it; an error of the work is raised where
the work is awaited. A thread cannot be cancelled. So work that may block long on a server has a daemon
thread of its own: its result may be dropped, and neither other threads nor the process's exit wait for
it.
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
"""The interval between two cancellations of the same work."""


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Start some work; it is cancelled if still running at the block's end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        # A library may treat a cancellation as a failure of its own, and retry.
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_SECONDS_TO_END)
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()


async def in_its_own_thread(work: Callable[[], T]) -> T:
    """The result of work that may block for long; it does not occupy a shared thread."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=run, name="asks a server", daemon=True).start()
    return await asyncio.wrap_future(answer)
