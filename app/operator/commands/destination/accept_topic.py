"""`python -m app destination accept-topic`: continue with topics that were deleted and made again.

Invariant: only after the cost is shown and confirmed.
"""

from __future__ import annotations

import argparse
import sys

from app.operator.arguments import add_destination, add_format
from app.operator.commands.destination.desired_state import request
from app.operator.event_loop import run_operation
from app.operator.journal_access import journal_of
from app.operator.operations.destination.accepted_topics import plan_acceptance
from app.operator.output import print_answer
from app.operator.request import add_waiting
from app.operator.terminal import add_reason, confirm, operator
from app.settings.model import load
from app.worker.merge.plan import UNIT
from connectors.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Take topics and a reason."""
    parser.epilog = (
        "DEST may be a merge, as merge.NAME. A destination is then restarted. Its table versions are published "
        "again if their topic was made again; rows are not: see `snapshot start`. The journal itself is not "
        "accepted: restore it from a copy."
    )
    add_destination(parser)
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="full name of a topic")
    parser.add_argument("--all", action="store_true", help="all topics that were made again")
    add_reason(parser)
    add_waiting(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Record it and restart; see ``desired_state.request``."""
    if bool(options.topics) == options.all:
        raise UsageError("name the topics, or give --all")
    settings, name = load(), options.destination
    is_merge = name.startswith(UNIT)
    planned = run_operation(plan_acceptance(journal_of(settings, name), options.topics))
    if planned is None:
        sys.stderr.write(f"{name}: each topic is the one that was written to; nothing to accept\n")
    else:
        confirm(options, f"{name}: {planned.effect}")
        run_operation(planned.write(by=operator(), why=options.why))
    if not is_merge:
        return request(options, None, "restart requested")
    print_answer(
        options.format, {"accepted": planned is not None}, [f"{name}: it continues by itself"]
    )
    return 0
