"""The reason for a change of a cursor, and the confirmation of its cost.

Invariant: nothing is changed before the operator has agreed, by an argument or by typing the
destination's name.
"""

from __future__ import annotations

import argparse
import sys

from app.commands.operator import operator
from app.operations.cursor.epoch_claim import ChangeReason
from connectors.errors import NotConfirmed, printed


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
    if options.yes_lose_changes:
        return
    name = options.destination
    if not sys.stdin.isatty():
        raise NotConfirmed(effect, destination=name)
    sys.stderr.write(f"{printed(effect)}.\nType {name!r} to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise NotConfirmed(effect, destination=name)
