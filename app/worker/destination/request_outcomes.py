"""Outcomes of operators' requests, which this worker writes to the journal once applied.

Invariant: an outcome is written only once the request is in effect: by the destination's leader or, if
the destination is to have no leader, by a worker that sees that it has none. A request with a final
outcome from another worker is not answered again. An outcome that Kafka does not accept is written
again; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from app.worker.coordination.leadership import Leadership
from connectors.errors import AqueductError
from tables.journal_format import Entry
from tables.state.operator_requests import Applied, Control, outcome_note

log = logging.getLogger(__name__)

_GLANCE_SECONDS = 0.1
_OTHERS_SECONDS = 1.0
"""The time for the leader to answer before another worker does."""
_PAUSE_SECONDS = 2.0
"""The pause after an outcome that Kafka did not accept."""

Append = Callable[[str, Entry], Awaitable[object]]
"""Writes a record to the journal; takes the name of a destination or other unit, and the record."""


class RespondingUnit(Protocol):
    """The part of a destination, or of another unit of work, that concerns requests."""

    @property
    def request(self) -> Control | None:
        """The last request that this worker has received."""
        ...

    def outcome(self, *, here: bool, alone: bool) -> tuple[str, str | None, int] | None:
        """State, error and epoch after this worker applied the request; None if it has not.

        ``here``: whether this worker leads the unit. ``alone``: whether it runs without coordination.
        """
        ...


@dataclass(slots=True)
class _Known:
    """The outcomes of one unit's requests."""

    offset: int = -1
    """The offset of the last request with a final outcome."""
    last: Applied | None = None
    """The last outcome that this worker wrote."""
    since: tuple[int, float] = (-1, 0.0)
    """The offset of a request that this worker could answer without leading, and since when."""
    led: int = -1
    """The offset of the last request that this worker received as the leader."""


@dataclass(slots=True)
class Acknowledge:
    """The outcomes written by one worker."""

    worker: str
    address: str
    append: Append
    units: Callable[[], Mapping[str, RespondingUnit]]
    leadership: Callable[[], Leadership]
    _known: dict[str, _Known] = field(default_factory=dict)

    async def run(self) -> None:
        """Write outcomes, until cancelled."""
        while True:
            try:
                for name, one in list(self.units().items()):
                    await self._answer(name, one)
            except AqueductError as error:
                log.warning(
                    "the outcome of a command is not written yet: %s: %s", error.name, error
                )
                await asyncio.sleep(_PAUSE_SECONDS)
            await asyncio.sleep(_GLANCE_SECONDS)

    def record_applied(self, applied: Applied) -> None:
        """Record an outcome that was committed in the journal."""
        known = self._known.setdefault(applied.destination, _Known())
        if applied.is_final:
            known.offset = max(known.offset, applied.request)

    async def _answer(self, name: str, one: RespondingUnit) -> None:
        request, known = one.request, self._known.setdefault(name, _Known())
        if request is None or request.offset <= known.offset:
            return
        applied = self._applied(name, one, request, known)
        if applied is None or _is_same(applied, known.last):
            return
        await self.append(name, outcome_note(applied))
        known.last = applied
        if applied.is_final:
            known.offset = max(known.offset, request.offset)
            log.info("%s: %s, as %s asks", name, applied.state, request.by or "somebody")

    def _applied(
        self, name: str, one: RespondingUnit, request: Control, known: _Known
    ) -> Applied | None:
        seen = self.leadership().why(name)
        here = bool(seen["here"])
        if here:
            known.led = request.offset
        if not here and not (seen["vacant"] and not request.has_leader):
            return None
        outcome = one.outcome(here=here, alone=self.leadership().to_json() is None)
        if outcome is None or not self._may_answer(known, request):
            return None
        state, error, epoch = outcome
        return Applied(
            destination=name,
            worker=self.worker,
            address=self.address,
            request=request.offset,
            state=state,
            error=error,
            epoch=epoch,
            ts_ms=time.time_ns() // 1_000_000,
        )

    def _may_answer(self, known: _Known, request: Control) -> bool:
        """Whether this worker led it, or the leader has had time to answer."""
        if known.led == request.offset:
            return True
        now = time.monotonic()
        if known.since[0] != request.offset:
            known.since = (request.offset, now)
        return now - known.since[1] > _OTHERS_SECONDS


def _is_same(new: Applied, last: Applied | None) -> bool:
    """Whether an outcome equals the last one; of an error, only the name counts."""
    return last is not None and _content(new) == _content(last)


def _content(applied: Applied) -> tuple[object, ...]:
    return applied.request, applied.state, (applied.error or "").partition(":")[0]
