"""Named failpoints: the durable steps at which a test may kill, break or stall a worker.

Invariant: without the tests' variable a failpoint does nothing, and nothing else enables one. An
unknown name is refused, so a misspelt test fails instead of testing nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connectors.errors import SettingsError

VARIABLE = "AQUEDUCT_TEST_FAULTS"
"""``<point>=<action>[@<pass>][:<seconds>]``, more with commas: ``commit.before=kill@3, read.chunk=stall:9``.
A freeze lasts until SIGCONT."""

POINTS: Mapping[str, str] = {
    "init.before": "the topics exist, the transactional id is not yet taken over",
    "init.after": "the transactional id is taken over, the journal not yet read",
    "recover.after": "the journal is read, nothing is claimed",
    "claim.before": "the claim is sent, its transaction still open",
    "claim.after": "the claim is committed, nothing is read",
    "read.chunk": "a chunk came over the binlog's connection",
    "decode.before": "a chunk is about to be decoded",
    "decode.after": "a chunk is decoded and numbered, not handed over",
    "handoff.taken": "a piece was taken, nothing of it is sent",
    "topics.made": "the row topics of a piece exist, its transaction has not begun",
    "produce.schemas": "table versions and the schema history are sent, no row",
    "produce.rows": "the rows are sent, the cursor is not",
    "commit.before": "rows and cursor are acknowledged, the transaction is open",
    "commit.after": "the transaction is committed, the worker does not know it yet",
    "fold.before": "a journal record reached the agent",
    "fold.after": "a journal record is folded, not acknowledged",
    "release.decoded": "events that waited are decoded, not published",
    "release.published": "some events that waited are published, others not",
    "stop.begun": "the worker was asked to end",
}
"""Each failpoint and the state it is reached in."""

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
    """Return the faults that a variable names; raise SettingsError for a name that is not a failpoint."""
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
"""Called with a failpoint's name each time it is passed."""
