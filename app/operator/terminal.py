"""The operator at the command line: name, confirmation of irreversible changes, reports during a coroutine.

Invariant: nothing is changed before the operator has agreed, by an option or by typing the name of what is
changed.
"""

from __future__ import annotations

import argparse
import os
import sys

from connectors.errors import AqueductError, NotConfirmed
from connectors.mysql.server.facts import SourceAddress
from wire.text import printed


def ask_for_name(name: str, effect: str, *, remedy: str = "", **context: str) -> None:
    """Show the effect and return if the operator types the name; otherwise raise NotConfirmed."""
    if not sys.stdin.isatty():
        raise NotConfirmed(effect, remedy=remedy, **context)
    sys.stderr.write(f"{printed(effect)}.\nType {name!r} to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise NotConfirmed(effect, remedy=remedy, **context)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the reason, and the confirmation of the cost."""
    parser.add_argument("--why", required=True, help="reason; stored with the change")
    parser.add_argument(
        "--yes-lose-changes", action="store_true", help="do not ask for confirmation"
    )


def confirm(options: argparse.Namespace, effect: str) -> None:
    """Return if the operator confirms; otherwise raise NotConfirmed."""
    if not options.yes_lose_changes:
        ask_for_name(options.destination, effect, destination=options.destination)


def operator() -> str:
    """Return the calling user, for the record."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"


def report_unreachable(
    address: SourceAddress, error: AqueductError, instead: SourceAddress
) -> None:
    """Report a source that does not answer, and the source that is asked instead."""
    why = printed(error.detail)
    sys.stderr.write(f"{address} does not answer, asking {instead} instead: {why}\n")
