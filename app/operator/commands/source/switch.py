"""`python -m app source switch`: read another of a destination's sources."""

from __future__ import annotations

import argparse
import json
import sys

from app.operator.arguments import add_destination, add_format
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.source_switch import SwitchOutcome, request_switch
from app.operator.output import print_answer
from app.operator.request import UNCONFIRMED, add_waiting, done_text, seconds_of
from app.operator.terminal import operator
from app.settings.model import load


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
    """Request it; 0 once it is read, 1 if it was refused; NotApplied if no worker tried it."""
    journal = Journal.of(load(), options.destination)
    found = run_operation(
        request_switch(journal, options.source, by=operator(), wait=seconds_of(options))
    )
    code, text = (0, UNCONFIRMED) if found.tried is None else _outcome(found.tried)
    if options.format == "json":
        value = {"source": found.request.address, "id": found.request.id, "message": text}
        sys.stdout.write(json.dumps(value) + "\n")
    else:
        print_answer("text", None, [f"{found.request.address}: {text}"])
    return code


def _outcome(tried: SwitchOutcome) -> tuple[int, str]:
    """Return the exit code, and the outcome as text."""
    current = tried.current
    if current.refused is not None:
        return 1, f"refused, {current.address} is still read: {current.refused}"
    done = done_text(tried.worker, tried.seconds)
    return 0, f"is read now, server {current.server_uuid}{done}"
