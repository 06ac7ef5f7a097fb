"""Writes the operator's desired state of a destination to the journal, and returns which worker
applied it.

Invariant: it is written whole and with its author, on top of the last request; it is kept there
while no worker runs. A name that neither the settings nor the journal has is refused.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from app.operator.operations.journal_access import Journal
from app.operator.operations.request_outcome import Outcome, send_request
from tables.state.operator_requests import Control, DesiredState


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRequest:
    """A written request, and its outcome; None if that was not waited for."""

    control: Control
    outcome: Outcome | None


async def request_state(
    journal: Journal, desired: DesiredState | None, *, by: str, wait: float | None
) -> WrittenRequest:
    """Request a state; None keeps the present one, and begins a new run. ``wait``: seconds; None:
    do not.

    Raises NotApplied if no worker applied it in time, RequestReplaced if another request came
    first.
    """
    last = (await journal.latest_state()).control
    if desired is None:
        desired, restart = (last.desired if last else DesiredState.RUN), uuid.uuid4().hex[:12]
    else:
        restart = last.restart if last else ""
    control = Control(
        destination=journal.plan.name,
        desired=desired,
        restart=restart,
        by=by,
        ts_ms=time.time_ns() // 1_000_000,
    )
    return WrittenRequest(control=control, outcome=await send_request(journal, control, wait=wait))
