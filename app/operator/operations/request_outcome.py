"""Waiting for the outcome of a request: the worker that applied it, the state reached, and the time
taken.

Invariant: success is a worker's report after it applied the request; the request in the journal
alone is none.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from app.operator.operations.journal_access import Journal
from app.operator.operations.not_applied_reason import why_not_applied
from connectors.errors import AqueductError, NotApplied, RequestReplaced
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.tail import Tail
from tables.state.operator_requests import (
    OUTCOME,
    Applied,
    Control,
    DesiredState,
    applied_in,
    control_in,
    control_note,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a request."""

    applied: Applied
    seconds: float

    @property
    def is_reached(self) -> bool:
        """Return whether the destination is in the requested state."""
        return self.applied.state in ("RUNNING", "PAUSED", "STOPPED")


async def send_request(journal: Journal, control: Control, *, wait: float | None) -> Outcome | None:
    """Write a request and wait until a worker has applied it; ``wait``: seconds; None: do not.

    Raises NotApplied if none did in time, RequestReplaced if another request came first.
    """
    began = time.monotonic()
    offset = await journal.write(control_note(control))
    if wait is None:
        return None
    waiting = _Waiting(control, offset)
    try:
        await waiting.wait(journal, wait - (time.monotonic() - began))
    except TimeoutError:
        if waiting.applied is None:
            raise await _not_applied(journal, control, wait) from None
    assert waiting.applied is not None
    return Outcome(applied=waiting.applied, seconds=time.monotonic() - began)


async def not_tried_error(journal: Journal, what: str, seconds: float) -> NotApplied:
    """Return the error that no worker has tried the request in time."""
    desired = (await journal.latest_state()).control
    why = (
        f"the desired state is {desired.desired.value}, requested by {desired.by or 'an operator'}"
        if desired is not None and desired.desired is not DesiredState.RUN
        else await why_not_applied(journal.settings, journal.plan.name)
    )
    return NotApplied(
        f"{what} was recorded, but not applied within {seconds:g} s: {why}",
        destination=journal.plan.name,
    )


async def _not_applied(journal: Journal, control: Control, seconds: float) -> NotApplied:
    return NotApplied(
        f"{control.desired.value} was recorded, but not applied within {seconds:g} s: "
        f"{await why_not_applied(journal.settings, journal.plan.name)}",
        destination=control.destination,
    )


@dataclass(slots=True)
class _Waiting:
    """A request in the journal, and the records that follow it."""

    control: Control
    offset: int
    applied: Applied | None = None
    fault: AqueductError | None = None

    async def wait(self, journal: Journal, seconds: float) -> None:
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
            options=journal.options,
            topic=journal.topic,
            partitions=(journal.partition,),
            take=take,
            start={journal.partition: self.offset + 1},
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
        outcomes = OUTCOME.key(self.control.destination) + b"/"
        if record.key == control_note(self.control)[0]:
            other = control_in(record)
            self.fault = RequestReplaced(
                f"{other.desired.value}, requested by {other.by or 'an operator'}",
                destination=other.destination,
            )
        elif record.key.startswith(outcomes):
            applied = applied_in(record)
            if applied.request == self.offset:
                self.applied = applied
