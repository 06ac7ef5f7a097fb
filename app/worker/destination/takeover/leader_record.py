"""The record of an epoch's leader, written with its claim.

Invariant: it names the process, not only the worker id, which a second worker may share by mistake.
"""

from __future__ import annotations

import time

from app.worker.destination.plan import Plan
from app.worker.work.process_identity import this_process
from tables.journal_format import Entry
from tables.state.journal.records import Leader, note_of


def claim_of(plan: Plan, epoch: int) -> Entry:
    """The leader record for the claim's transaction."""
    return note_of(
        Leader(
            destination=plan.name,
            worker=plan.worker,
            address=plan.reached_at,
            process=this_process(),
            epoch=epoch,
            ts_ms=time.time_ns() // 1_000_000,
        )
    )
