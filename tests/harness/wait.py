"""Waiting for a state, with a generous deadline.

Invariant: no test fails on a slow machine, or waits much longer than necessary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 60.0
"""The default deadline in seconds."""
GLANCE = 0.05
"""Seconds between two checks."""

Found = TypeVar("Found")


def until(
    reached: Callable[[], Found | None],
    *,
    seconds: float = PATIENCE,
    glance: float = GLANCE,
    late: Callable[[], object] = lambda: "not in time",
) -> Found:
    """The first true value of ``reached``; raises AssertionError with ``late`` on timeout."""
    deadline = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < deadline, str(late())
        time.sleep(glance)
    return found


async def until_async(
    reached: Callable[[], Awaitable[Found | None]], *, seconds: float = PATIENCE
) -> Found:
    """The same for a coroutine."""
    deadline = time.monotonic() + seconds
    while not (found := await reached()):
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(GLANCE)
    return found
