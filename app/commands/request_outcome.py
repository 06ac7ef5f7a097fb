"""Waiting for the outcome of a request: which worker has applied it, the state reached, and after how long.

Invariant: success is what a worker has said after it did it; that the request stands in the journal is none.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass
from typing import Any

from app.commands.journal_access import Journal
from app.commands.workers import workers_text
from connectors.errors import AqueductError, NotApplied, RequestReplaced
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.tail import Tail
from tables.journal.state import DestinationState
from tables.journal_format import quoted
from tables.operator.control import Control, Wish, control_in, note_of
from tables.operator.request_outcome import KIND, Applied, applied_in

TIMEOUT = 60.0
UNCONFIRMED = "recorded, and not waited for: no worker has confirmed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a request."""

    applied: Applied
    seconds: float

    @property
    def is_reached(self) -> bool:
        """Whether the destination does what was asked for."""
        return self.applied.state in ("RUNNING", "PAUSED", "STOPPED")

    def text(self) -> str:
        """For people."""
        one = self.applied
        where = f" ({one.address})" if one.address else ""
        told = f"{one.state}, applied by worker {one.worker}{where} after {self.seconds:.1f} s"
        return told if one.error is None or self.is_reached else f"{told}: {one.error}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        one = self.applied
        return {
            "worker": one.worker,
            "address": one.address or None,
            "state": one.state,
            "error": None if self.is_reached else one.error,
            "epoch": one.epoch or None,
            "seconds": round(self.seconds, 3),
        }


def add_waiting(parser: argparse.ArgumentParser) -> None:
    """Take how long to wait for the outcome."""
    parser.add_argument(
        "--timeout", "--wait", type=_seconds, default=TIMEOUT, metavar="SECONDS",
        help="for a worker to apply it (default: %(default).0f)",
    )  # fmt: skip
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not wait for a worker; exit once it is in the journal",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait; --no-wait does not wait")
    return seconds


def request(asked: Journal, control: Control, *, timeout: float | None) -> Outcome | None:
    """Write a request and wait until a worker has applied it; without a timeout do not wait.

    Raises NotApplied where none did in time, RequestReplaced where another request came first.
    """
    began = time.monotonic()
    offset = asked.write(note_of(control))
    if timeout is None:
        return None
    waiting = _Waiting(control, offset)
    try:
        asyncio.run(waiting.wait(asked, timeout - (time.monotonic() - began)))
    except TimeoutError:
        if waiting.applied is None:
            raise _not_applied(asked, control, timeout) from None
    assert waiting.applied is not None
    return Outcome(applied=waiting.applied, seconds=time.monotonic() - began)


def by_whom(state: DestinationState, began: float) -> str:
    """Which worker has done what a command asked for, and after how long; for people."""
    worker = f" by worker {state.leader.worker}" if state.leader is not None else ""
    return f"; done{worker} after {time.monotonic() - began:.1f} s"


def untried(asked: Journal, what: str, seconds: float) -> NotApplied:
    """No worker has tried in time what a command asks for."""
    said = asked.now().control
    why = (
        f"the destination is to {said.wish.value}, as {said.by or 'somebody'} asked"
        if said is not None and said.wish is not Wish.RUN
        else workers_text(asked)
    )
    return NotApplied(
        f"{what} was recorded, and nothing came of it within {seconds:g} s: {why}",
        destination=asked.plan.name,
    )


def _not_applied(asked: Journal, control: Control, timeout: float) -> NotApplied:
    return NotApplied(
        f"{control.wish.value} was recorded, and nothing came of it within {timeout:g} s: "
        f"{workers_text(asked)}",
        destination=control.destination,
    )


@dataclass(slots=True)
class _Waiting:
    """A request in the journal, and what follows it there."""

    control: Control
    offset: int
    applied: Applied | None = None
    fault: AqueductError | None = None

    async def wait(self, asked: Journal, seconds: float) -> None:
        """Return once a worker has applied it for good; raise TimeoutError."""
        ended = asyncio.Event()

        def take(_: int, record: StoredRecord) -> None:
            try:
                self._take(record)
            except AqueductError as error:
                self.fault = error
            if self.fault is not None or (self.applied is not None and self.applied.is_final):
                ended.set()

        tail = Tail(
            options=asked.options,
            topic=asked.topic,
            partitions=(asked.partition,),
            take=take,
            start={asked.partition: self.offset + 1},
        )
        reading = asyncio.create_task(tail.run())
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await ended.wait()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        if self.fault is not None:
            raise self.fault

    def _take(self, record: StoredRecord) -> None:
        mine = quoted(self.control.destination).encode()
        if record.key == note_of(self.control)[0]:
            other = control_in(record)
            self.fault = RequestReplaced(
                f"{other.wish.value}, asked for by {other.by or 'somebody'}",
                destination=other.destination,
            )
        elif record.key.startswith(KIND + mine + b"/"):
            applied = applied_in(record)
            if applied.request == self.offset:
                self.applied = applied
