"""Requests a desired state of a destination, and prints which worker applied it.

Invariant: it succeeds only after a worker's report that it was applied.
"""

from __future__ import annotations

import argparse

from app.commands.arguments import add_format
from app.commands.event_loop import completed
from app.commands.operator import operator
from app.commands.output import answer
from app.commands.waiting import (
    UNCONFIRMED,
    add_waiting,
    outcome_text,
    outcome_value,
    seconds_of,
)
from app.operations.destination.desired_state import request_state
from app.operations.journal_access import Journal
from app.settings.model import load
from tables.operator.control import DesiredState


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and how long to wait."""
    parser.add_argument("destination", metavar="NAME", help="name of a destination in the settings")
    add_waiting(parser)
    add_format(parser)


def say(options: argparse.Namespace, wish: DesiredState | None, told: str) -> int:
    """Request a state; None keeps the present one, and begins a new run.

    0 once a worker has reached it, 1 if the destination failed instead. Raises NotApplied if no
    worker applied it.
    """
    name, asked = options.destination, Journal.of(load(), options.destination)
    found = completed(request_state(asked, wish, by=operator(), wait=seconds_of(options)))
    value, outcome = found.control.to_json(), found.outcome
    if outcome is None:
        answer(options.format, {**value, "applied": None}, [f"{name}: {told}; {UNCONFIRMED}"])
        return 0
    applied = outcome_value(outcome)
    answer(options.format, {**value, "applied": applied}, [f"{name}: {outcome_text(outcome)}"])
    return 0 if outcome.is_reached else 1
