"""The event loop of commands: the only module that runs one.

Invariant: an operation runs to its end and returns what a command prints; no question is asked
while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_operation(operation: Coroutine[Any, Any, T]) -> T:
    """Return an operation's result, or raise its error."""
    return asyncio.run(operation)
