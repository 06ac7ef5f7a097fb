"""A requested switch to another of a destination's sources.

Invariant: only the journal is changed here; the worker judges that source as in a failover, and
stays with the present one if it is not fit.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from app.operator.operations.journal_access import Journal
from app.operator.operations.request_outcome import not_tried_error
from connectors.errors import UsageError
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Current, SourceRequest, source_note


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOutcome:
    """A worker's result of the request; ``current``: the source that is read, and why not the other."""

    current: Current
    worker: str | None
    """The destination's leader."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSwitch:
    """The written request, and its outcome; None if that was not waited for."""

    request: SourceRequest
    tried: SwitchOutcome | None


async def request_switch(
    journal: Journal, address: str, *, by: str, wait: float | None
) -> WrittenSwitch:
    """Request a source by its address; raise UsageError for one that the settings do not have.

    Raises NotApplied if no worker tried it in time. ``wait``: seconds; None: do not.
    """
    _check_known(journal, address)
    before = (await journal.state(whole_history=False)).source_choice.request
    request = SourceRequest(
        destination=journal.plan.name,
        id=uuid.uuid4().hex[:12],
        address=address,
        by=by,
        # Later than the last one, whatever this machine's clock shows.
        ts_ms=max(time.time_ns() // 1_000_000, before.ts_ms + 1 if before else 0),
    )
    began = time.monotonic()
    await journal.write(source_note(request))
    tried = None if wait is None else await _wait_until_tried(journal, request, wait, began)
    return WrittenSwitch(request=request, tried=tried)


def _check_known(journal: Journal, address: str) -> None:
    known = [str(source.address) for source in journal.plan.sources]
    if address not in known:
        raise UsageError(
            f"{journal.plan.name} has no source {address!r}; there is: {', '.join(known)}"
        )


async def _wait_until_tried(
    journal: Journal, request: SourceRequest, seconds: float, began: float
) -> SwitchOutcome:
    def is_tried(state: DestinationState) -> bool:
        current = state.source_choice.current
        return current is not None and current.answers == request.id

    state = await journal.wait(is_tried, seconds)
    if state is None:
        raise await not_tried_error(journal, "source switch", seconds)
    current = state.source_choice.current
    assert current is not None
    worker = state.leader.worker if state.leader is not None else None
    return SwitchOutcome(current=current, worker=worker, seconds=time.monotonic() - began)
