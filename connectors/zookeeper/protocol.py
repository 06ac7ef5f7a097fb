"""What a worker needs of ZooKeeper: a session, and a tree of nodes in which some end with it.

The law: a session is used until it is over and never again; ``answered`` is when the newest request that was
answered had been *sent*, by a clock that goes on while a machine sleeps. So whoever gives up a part of the
session's time after that gives up before the servers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still in a suspended machine."""


def now() -> float:
    """Seconds on a clock that is never set and never stands still."""
    return time.clock_gettime(_CLOCK)


class SessionState(Enum):
    """How a session is, as far as this side knows."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session may be over, and may not."""
    OVER = "over"
    """For good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as it was read."""

    data: bytes
    czxid: int
    """The number of the transaction that made it; greater than that of all that was made before."""
    owner: int
    """The session that it ends with; 0: it stays."""


class NodeTaken(Exception):
    """There is such a node already."""


class Session(Protocol):
    """A session, and the tree as it sees it. Each method raises CoordinationLost where there is no answer, and
    CoordinationRefused where the account may not."""

    id: int
    timeout: float
    """Seconds without a word from us after which the servers end it."""
    state: SessionState
    answered: float
    """By ``now()``; see above."""

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> Node:
        """Make a node, and what stands above it; raise NodeTaken where there is one."""
        ...

    async def read(self, path: str) -> Node | None:
        """A node; None where there is none."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names below a node, in order; none without it. A change of them is told once."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a node, if it is there."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Change what is in a node, if it is there; it stays the node it was."""
        ...


Opens = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]
"""Opens a session for as long as a block; the function is called when it, or what it looked at, has changed."""
