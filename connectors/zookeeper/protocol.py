"""A worker's interface to ZooKeeper: a session, and a tree of nodes, some of which end with the session.

Invariant: a session that is over is never used again. ``answered`` is the time at which the newest
answered request was *sent*, on a clock that runs while a machine sleeps. So an owner that gives up less
than the session's time-out after ``answered`` gives up before the servers do.
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
    """The number of the transaction that created it; greater than the numbers of all earlier nodes."""
    owner: int
    """The id of the session with which it ends; 0: it is persistent."""


class NodeTaken(Exception):
    """The node exists already."""


class Session(Protocol):
    """A session, and the tree as the session sees it.

    Each method raises CoordinationLost if no answer arrives, and CoordinationRefused if the account lacks
    the privilege.
    """

    id: int
    timeout: float
    """Seconds without a request from us after which the servers end it."""
    state: SessionState
    answered: float
    """By ``now()``; see the module's invariant."""

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> Node:
        """Make a node and its parents; raise NodeTaken if it exists."""
        ...

    async def read(self, path: str) -> Node | None:
        """Return a node; None if it does not exist."""
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names below a node, sorted; empty without the node. Their next change is notified once."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a node, if it exists."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Change the data of a node, if it exists; it stays the same node."""
        ...


Opens = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]
"""Opens a session for a block; calls the given function when the session or a watched node has changed."""
