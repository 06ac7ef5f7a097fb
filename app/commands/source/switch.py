"""`python -m app source switch`: read another of a destination's sources.

The law: nothing is changed here but the journal; the worker judges that source as it does when the present one
is lost, and stays with the present one where it is not fit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid

from app.commands.journal_access import Journal, operator
from app.commands.output import answer
from app.commands.request_outcome import UNCONFIRMED, add_waiting, by_whom, untried
from connectors.errors import UsageError
from tables.journal.state import DestinationState
from tables.operator.source_choice import Asked, note_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination and the address of one of its sources."""
    parser.epilog = (
        "A standby that lags is waited for, for 30 s. What keeps it from being read is told, and the present "
        "source goes on."
    )
    parser.add_argument("destination", metavar="DEST")
    parser.add_argument("source", metavar="HOST:PORT", help="as the settings have it")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_waiting(parser)


def run(options: argparse.Namespace) -> int:
    """Ask for it; 0 once it is read, 1 where it was refused; NotApplied where no worker tried it."""
    asked = Journal.of(options.destination)
    known = [str(source.address) for source in asked.plan.sources]
    if options.source not in known:
        raise UsageError(
            f"{options.destination} has no source {options.source!r}; there is: {', '.join(known)}"
        )
    before = asked.state(whole_history=False).source_choice.asked
    wish = Asked(
        destination=options.destination,
        id=uuid.uuid4().hex[:12],
        address=options.source,
        by=operator(),
        # Later than the last one, whatever this machine's clock says.
        ts_ms=max(time.time_ns() // 1_000_000, before.ts_ms + 1 if before else 0),
    )
    began = time.monotonic()
    asked.write(note_of(wish))
    if options.no_wait:
        code, told = 0, UNCONFIRMED
    else:
        code, told = _outcome(asked, wish, options.timeout, began)
    if options.format == "json":
        told = json.dumps({"source": wish.address, "id": wish.id, "told": told})
        sys.stdout.write(told + "\n")
    else:
        answer("text", None, [f"{wish.address}: {told}"])
    return code


def _outcome(asked: Journal, wish: Asked, seconds: float, began: float) -> tuple[int, str]:
    """The exit code, and in words what has come of it."""

    def is_tried(state: DestinationState) -> bool:
        current = state.source_choice.current
        return current is not None and current.answers == wish.id

    state = asked.wait(is_tried, seconds)
    if state is None:
        raise untried(asked, "source switch", seconds)
    current = state.source_choice.current
    assert current is not None
    if current.refused is not None:
        return 1, f"refused, {current.address} is read on: {current.refused}"
    return 0, f"is read now, server {current.server_uuid}{by_whom(state, began)}"
