"""A worker's interface to ZooKeeper: a session, and a tree of nodes of which some end with it.

Invariant: a session is used until it is over and never again; ``answered`` is when the newest
answered request had been *sent*, by a clock that runs while a machine sleeps. So an owner that
gives up a part of the session's time after that gives up before the servers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stops in a suspended machine."""


def now() -> float:
    """Seconds on a clock that is never set and never stops."""
    return time.clock_gettime(_CLOCK)


class SessionState(Enum):
    """The state of a session, as far as this side knows."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session may or may not be over."""
    OVER = "over"
    """For good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as it was read."""

    data: bytes
    czxid: int
    """The number of the transaction that created it; greater than that of all earlier nodes."""
    owner: int
    """The session that it ends with; 0: it is persistent."""


class NodeTaken(Exception):
    """There is such a node already."""


class Session(Protocol):
    """A session, and the tree as it sees it. Each method raises CoordinationLost without an answer,
    and CoordinationRefused if the account lacks the privilege."""

    id: int
    timeout: float
    """Seconds without a request from us after which the servers end it."""
    state: SessionState
    answered: float
    """By ``now()``; see above."""

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> Node:
        """Make a node and its parents; raise NodeTaken if it exists."""
        ...

    async def read(self, path: str) -> Node | None:
        """Return a node; None if it does not exist."""
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names below a node, in order; none without it. The next change of them is
        notified once."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a node, if it exists."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Change the data of a node, if it exists; it stays the same node."""
        ...


Opens = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]
"""Opens a session for a block; the function is called when it, or a watched node, has changed."""
