"""Waiting for a state, with a generous deadline.

Invariant: no test fails on a slow machine, or waits much longer than necessary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TIMEOUT = 150.0
"""The default deadline in seconds."""
GLANCE = 0.05
"""Seconds between two checks."""
PAUSE, LONGEST = 2.0, 0.5
"""After a check the others have the processor for so many times as long as it took, up to these seconds: one
that reads a topic again and again would slow down what it waits for."""

Found = TypeVar("Found")


def until(
    reached: Callable[[], Found | None],
    *,
    seconds: float = TIMEOUT,
    glance: float = GLANCE,
    late: Callable[[], object] = lambda: "not in time",
    hopeless: Callable[[], object] = lambda: False,
    error: type[AssertionError] = AssertionError,
) -> Found:
    """The first true value of ``reached``.

    Raises ``error`` with ``late`` on timeout, and at once if it is ``hopeless``.
    """
    began = time.monotonic()
    deadline = began + seconds
    while not (found := reached()):
        if hopeless() or time.monotonic() >= deadline:
            raise error(str(late()))
        time.sleep(_pause(glance, time.monotonic() - began))
        began = time.monotonic()
    return found


def _pause(glance: float, took: float) -> float:
    """Seconds from a check, which took some, to the next one."""
    return max(glance, min(PAUSE * took, LONGEST))


async def until_async(
    reached: Callable[[], Awaitable[Found | None]],
    *,
    seconds: float = TIMEOUT,
    glance: float = GLANCE,
    late: Callable[[], object] = lambda: "not in time",
) -> Found:
    """The same for a coroutine."""
    began = time.monotonic()
    deadline = began + seconds
    while not (found := await reached()):
        if time.monotonic() >= deadline:
            raise AssertionError(str(late()))
        await asyncio.sleep(_pause(glance, time.monotonic() - began))
        began = time.monotonic()
    return found


async def until_in_loop(
    reached: Callable[[], Found | None],
    *,
    seconds: float = TIMEOUT,
    glance: float = GLANCE,
    late: Callable[[], object] = lambda: "not in time",
) -> Found:
    """The same for a state that the tasks of this event loop reach."""

    async def asked() -> Found | None:
        return reached()

    return await until_async(asked, seconds=seconds, glance=glance, late=late)
