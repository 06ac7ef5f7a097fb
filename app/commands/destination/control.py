"""Writes the operator's desired state of a destination to the journal, and reports which worker applied it.

Invariant: it is written whole and with who asked for it, on top of the last request; it is kept there where no
worker runs. It succeeds only once a worker has said that it did it. A name that neither the settings nor the
journal has is refused.
"""

from __future__ import annotations

import argparse
import time
import uuid

from app.commands.arguments import add_format
from app.commands.journal_access import Journal, operator
from app.commands.output import answer
from app.commands.request_outcome import UNCONFIRMED, add_waiting, request
from tables.operator.control import Control, Wish


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination, and how long to wait."""
    parser.add_argument("destination", metavar="NAME", help="a destination of the settings")
    add_waiting(parser)
    add_format(parser)


def say(options: argparse.Namespace, wish: Wish | None, told: str) -> int:
    """Ask for a state; None keeps the one there is, and begins a new run.

    0 once a worker has reached it, 1 where the destination failed instead. Raises NotApplied where no worker
    did anything.
    """
    asked = Journal.of(options.destination)
    last = asked.now().control
    if wish is None:
        wish, restart = (last.wish if last else Wish.RUN), uuid.uuid4().hex[:12]
    else:
        restart = last.restart if last else ""
    control = Control(
        destination=options.destination,
        wish=wish,
        restart=restart,
        by=operator(),
        ts_ms=time.time_ns() // 1_000_000,
    )
    outcome = request(asked, control, timeout=None if options.no_wait else options.timeout)
    name, value = options.destination, control.to_json()
    if outcome is None:
        text = f"{name}: {told}; {UNCONFIRMED}"
        answer(options.format, {**value, "applied": None}, [text])
        return 0
    answer(options.format, {**value, "applied": outcome.to_json()}, [f"{name}: {outcome.text()}"])
    return 0 if outcome.is_reached else 1
