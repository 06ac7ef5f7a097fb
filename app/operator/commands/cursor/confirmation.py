"""The reason for a change of a cursor, and the confirmation of its cost."""

from __future__ import annotations

import argparse

from app.operator.commands.confirmation import ask_for_name
from app.operator.commands.operator import operator
from app.operator.operations.cursor.epoch_claim import ChangeReason


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the reason, and the confirmation of the cost."""
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    parser.add_argument(
        "--yes-lose-changes", action="store_true", help="do not ask for confirmation"
    )


def reason_of(options: argparse.Namespace) -> ChangeReason:
    """Return the calling user and the reason."""
    return ChangeReason(by=operator(), why=options.why)


def confirm(options: argparse.Namespace, effect: str) -> None:
    """Return if the operator confirms; raise NotConfirmed."""
    if not options.yes_lose_changes:
        ask_for_name(options.destination, effect, destination=options.destination)
