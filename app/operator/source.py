"""`source`: request a switch to another of a destination's sources.

Invariant: only the journal is changed here; the worker judges the requested source as in a failover, and keeps
the present source if the requested one is not fit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid

from app.operator.arguments import add_destination, add_format
from app.operator.journal_access import Journal
from app.operator.terminal import operator, print_answer, run_operation
from app.operator.worker_answer import (
    UNCONFIRMED,
    Answer,
    add_waiting,
    answer_to,
    done_text,
    seconds_of,
)
from app.settings.model import load
from connectors.errors import UsageError
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Current, SourceRequest, source_note


async def request_switch(
    journal: Journal, address: str, *, by: str, wait: float | None
) -> tuple[SourceRequest, Answer[Current] | None]:
    """Request a source by its address; raise UsageError if the settings do not have it.

    Return the written request, and the source that is read after it, or None in place of the source without
    waiting. ``wait`` is in seconds; with None, do not wait. Raise NotApplied if no worker tried the source in
    time.
    """
    known = [str(source.address) for source in journal.plan.sources]
    if address not in known:
        raise UsageError(
            f"{journal.plan.name} has no source {address!r}; there is: {', '.join(known)}"
        )
    before = (await journal.state(whole_history=False)).source_choice.request
    request = SourceRequest(
        destination=journal.plan.name,
        id=uuid.uuid4().hex[:12],
        address=address,
        by=by,
        # Later than the last request, whatever this machine's clock shows.
        ts_ms=max(time.time_ns() // 1_000_000, before.ts_ms + 1 if before else 0),
    )

    def tried(state: DestinationState) -> Current | None:
        current = state.source_choice.current
        return current if current is not None and current.answers == request.id else None

    found = await answer_to(journal, [source_note(request)], tried, what="source switch", wait=wait)
    return request, found


def configure_switch(parser: argparse.ArgumentParser) -> None:
    """Add a destination and the address of one of its sources."""
    parser.epilog = (
        "A lagging standby is waited for, up to 30 s. If it cannot be read, the reason is reported and the "
        "present source is kept."
    )
    add_destination(parser)
    parser.add_argument(
        "source", metavar="HOST:PORT", help="address of a source, as in the settings"
    )
    add_format(parser)
    add_waiting(parser)


def run_switch(options: argparse.Namespace) -> int:
    """Request a source; return 0 once it is read, 1 if it was refused. Raise NotApplied without an answer."""
    journal = Journal.of(load(), options.destination)
    request, tried = run_operation(
        request_switch(journal, options.source, by=operator(), wait=seconds_of(options))
    )
    code, text = (0, UNCONFIRMED) if tried is None else _outcome(tried)
    if options.format == "json":
        value = {"source": request.address, "id": request.id, "message": text}
        sys.stdout.write(json.dumps(value) + "\n")
    else:
        print_answer("text", None, [f"{request.address}: {text}"])
    return code


def _outcome(tried: Answer[Current]) -> tuple[int, str]:
    current = tried.value
    if current.refused is not None:
        return 1, f"refused, {current.address} is still read: {current.refused}"
    done = done_text(tried.worker, tried.seconds)
    return 0, f"is read now, server {current.server_uuid}{done}"
