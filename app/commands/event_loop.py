"""The event loop of commands: the one place that runs one.

Invariant: an operation is run whole and returns what a command prints; no question is asked while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def completed(operation: Coroutine[Any, Any, T]) -> T:
    """What an operation returns; its error is raised here."""
    return asyncio.run(operation)
