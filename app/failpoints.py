"""Named failpoints: the durable steps at which a test may kill, break or stall a worker.

Invariant: a failpoint does nothing unless the tests' variable enables it. An unknown name is refused,
so a misspelt test fails instead of testing nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connectors.errors import SettingsError

VARIABLE = "AQUEDUCT_TEST_FAULTS"
"""``<point>=<action>[@<pass>][:<seconds>]``, separated by commas: ``commit.before=kill@3, read.chunk=stall:9``.
A freeze lasts until SIGCONT."""

POINTS: Mapping[str, str] = {
    "init.before": "after the topics are created, before the transactional id is taken over",
    "init.after": "after the transactional id is taken over, before the journal is read",
    "recover.after": "after the journal is read, before the claim",
    "claim.before": "after the claim is sent, before its commit",
    "claim.after": "after the claim is committed, before anything is read",
    "read.chunk": "after a chunk of the binlog is received",
    "decode.before": "before a chunk is decoded",
    "decode.after": "after a chunk is decoded and numbered, before it is handed over",
    "handoff.taken": "after a piece is handed over, before any of it is sent",
    "topics.made": "after a piece's row topics are created, before its transaction begins",
    "produce.schemas": "after table versions and schema history are sent, before the rows",
    "produce.rows": "after the rows are sent, before the cursor",
    "commit.before": "after rows and cursor are acknowledged, before the commit",
    "commit.after": "after the commit, before the worker processes the answer",
    "fold.before": "after a journal record is received by the agent",
    "fold.after": "after a journal record is folded, before it is acknowledged",
    "release.decoded": "after a quarantined table's events are decoded, before they are published",
    "release.published": "after some of a quarantined table's events are published, before the others",
    "snapshot.before": "before a chunk of existing rows is read",
    "snapshot.read": "after a chunk of existing rows is read, before it is handed in",
    "snapshot.handed": "after a chunk of existing rows is handed in, before its commit",
    "snapshot.committed": "after a chunk of existing rows is committed, before its reading proceeds",
    "stop.begun": "after the worker is asked to stop",
}
"""Each failpoint and when it is reached."""

_STALL_SECONDS = 3600.0

Act = Callable[[], None]


@dataclass(slots=True)
class _Fault:
    """An action that runs once, at the n-th pass of a failpoint."""

    act: Act
    at: int
    passes: int = 0

    def reach(self) -> None:
        self.passes += 1
        if self.passes == self.at:
            self.act()


def faults_of(text: str) -> dict[str, _Fault]:
    """Return the faults that a variable names; raise SettingsError for an unknown name or an invalid action."""
    faults = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, _, rest = one.partition("=")
        rest, _, seconds = rest.partition(":")
        action, _, at = rest.partition("@")
        try:
            act = _act(action, name, float(seconds or _STALL_SECONDS))
            if name not in POINTS:
                raise ValueError(f"{name} is no fault point")
            faults[name] = _Fault(act, int(at or 1))
        except ValueError as error:
            raise SettingsError(f"{VARIABLE} has {one!r}: {error}") from None
    return faults


def _act(action: str, name: str, seconds: float) -> Act:
    if action == "kill":
        return _kill
    if action == "stall":
        return lambda: time.sleep(seconds)
    if action == "raise":
        return lambda: _raise(name)
    if action == "freeze":
        return lambda: os.kill(os.getpid(), signal.SIGSTOP)
    raise ValueError("an action is kill, raise, stall or freeze")


def _kill() -> None:
    """End as kill -9 does: nothing is flushed or reported."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def _raise(name: str) -> None:
    raise OSError(f"the fault point {name} was set to fail")


def _nothing(_name: str) -> None:
    """A failpoint outside the tests."""


def _point_of(text: str) -> Callable[[str], None]:
    if not text:
        return _nothing
    faults = faults_of(text)

    def reached(name: str) -> None:
        if name in faults:
            faults[name].reach()

    return reached


point: Callable[[str], None] = _point_of(os.environ.get(VARIABLE, ""))
"""Called with a failpoint's name each time the failpoint is passed."""
