"""Requests a desired state of a destination, and prints which worker applied it.

Invariant: it succeeds only after a worker's report that it was applied.
"""

from __future__ import annotations

import argparse

from app.operator.commands.arguments import add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.operator import operator
from app.operator.commands.output import print_answer
from app.operator.commands.waiting import (
    UNCONFIRMED,
    add_waiting,
    outcome_text,
    outcome_value,
    seconds_of,
)
from app.operator.operations.destination.desired_state import request_state
from app.operator.operations.journal_access import Journal
from app.settings.model import load
from tables.state.operator_requests import DesiredState


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and how long to wait."""
    parser.add_argument("destination", metavar="NAME", help="name of a destination in the settings")
    add_waiting(parser)
    add_format(parser)


def request(options: argparse.Namespace, desired: DesiredState | None, text: str) -> int:
    """Request a state; None keeps the present one, and begins a new run.

    0 once a worker has reached it, 1 if the destination failed instead. Raises NotApplied if no
    worker applied it.
    """
    name, journal = options.destination, Journal.of(load(), options.destination)
    found = run_operation(request_state(journal, desired, by=operator(), wait=seconds_of(options)))
    value, outcome = found.control.to_json(), found.outcome
    if outcome is None:
        print_answer(options.format, {**value, "applied": None}, [f"{name}: {text}; {UNCONFIRMED}"])
        return 0
    applied = outcome_value(outcome)
    print_answer(
        options.format, {**value, "applied": applied}, [f"{name}: {outcome_text(outcome)}"]
    )
    return 0 if outcome.is_reached else 1
