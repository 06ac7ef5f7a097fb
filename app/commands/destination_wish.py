"""A person's word on a destination, written to the journal, where each worker hears it.

The law: it is written whole and with who said it, on top of the last word; no worker is asked, so that it holds
while none runs. A name that neither the settings nor the journal has is refused.
"""

from __future__ import annotations

import argparse
import time
import uuid

from app.commands.arguments import add_format
from app.commands.journal import Journal, operator
from app.commands.report import answer
from tables.control import Control, Wish, note_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    parser.add_argument("destination", metavar="NAME", help="a destination of the settings")
    add_format(parser)


def say(options: argparse.Namespace, wish: Wish | None, told: str) -> int:
    """Write a wish; None keeps the one there is, and begins a new run."""
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
    asked.write(note_of(control))
    answer(options.format, control.to_json(), [f"{options.destination}: {told}"])
    return 0
