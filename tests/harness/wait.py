"""Waiting for a state, with a generous deadline.

Invariant: no test fails for a slow machine, nor waits much longer than it has to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 60.0
"""Seconds."""
GLANCE = 0.05
"""Seconds between two looks."""

Found = TypeVar("Found")


def until(
    reached: Callable[[], Found | None],
    *,
    seconds: float = PATIENCE,
    glance: float = GLANCE,
    late: Callable[[], object] = lambda: "not in time",
) -> Found:
    """The first true value of ``reached``; an AssertionError that says ``late`` if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < deadline, str(late())
        time.sleep(glance)
    return found


async def until_async(
    reached: Callable[[], Awaitable[Found | None]], *, seconds: float = PATIENCE
) -> Found:
    """The same of a coroutine."""
    deadline = time.monotonic() + seconds
    while not (found := await reached()):
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(GLANCE)
    return found
