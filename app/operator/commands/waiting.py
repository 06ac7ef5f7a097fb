"""Arguments and texts of commands that wait until a worker has applied a request."""

from __future__ import annotations

import argparse
from typing import Any

from app.operator.operations.request_outcome import Outcome

TIMEOUT = 60.0
UNCONFIRMED = "recorded; no worker has confirmed it yet"


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add how long to wait for the outcome."""
    parser.add_argument(
        "--timeout", "--wait", type=_seconds, default=TIMEOUT, metavar="SECONDS",
        help="how long to wait for a worker to apply it (default: %(default).0f)",
    )  # fmt: skip


def add_waiting(parser: argparse.ArgumentParser) -> None:
    """Add whether to wait for the outcome, and how long."""
    add_timeout(parser)
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not wait for a worker; exit once the request is in the journal",
    )


def seconds_of(options: argparse.Namespace) -> float | None:
    """Return the seconds to wait; None: do not."""
    return None if options.no_wait else options.timeout


def outcome_text(outcome: Outcome) -> str:
    """Return the outcome of a request as text."""
    one = outcome.applied
    address_text = f" ({one.address})" if one.address else ""
    text = (
        f"{one.state}, applied by worker {one.worker}{address_text} after {outcome.seconds:.1f} s"
    )
    return text if one.error is None or outcome.is_reached else f"{text}: {one.error}"


def outcome_value(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a request as JSON."""
    one = outcome.applied
    return {
        "worker": one.worker,
        "address": one.address or None,
        "state": one.state,
        "error": None if outcome.is_reached else one.error,
        "epoch": one.epoch or None,
        "seconds": round(outcome.seconds, 3),
    }


def done_text(worker: str | None, seconds: float) -> str:
    """Return as text which worker applied a request, and the time taken."""
    by = f" by worker {worker}" if worker is not None else ""
    return f"; done{by} after {seconds:.1f} s"


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(
            f"{text} is not a number of seconds to wait; use --no-wait to not wait"
        )
    return seconds
