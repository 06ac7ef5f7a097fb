"""The event loop of commands: the only module that runs one.

Invariant: an operation runs to its end and returns what a command prints; no question is asked
while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_LONGEST_WAIT = 1.0
"""The seconds after which the loop looks for an interrupt, whatever it waits for."""


def run_operation(operation: Coroutine[Any, Any, T]) -> T:
    """Return an operation's result, or raise its error."""
    return asyncio.run(_interruptible(operation))


async def _interruptible(operation: Coroutine[Any, Any, T]) -> T:
    _wake(asyncio.get_running_loop())
    return await operation


def _wake(loop: asyncio.AbstractEventLoop) -> None:
    # `asyncio.run` sets no file descriptor for signals. An interrupt that another thread takes, or
    # that comes just before the loop's wait, would be seen only when that wait ends by itself.
    loop.call_later(_LONGEST_WAIT, _wake, loop)
