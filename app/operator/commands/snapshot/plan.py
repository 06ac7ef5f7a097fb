"""`python -m app snapshot plan`: what the sink must SELECT to read existing rows itself, as JSON.

Invariant: read-only; the plan has no password.
"""

from __future__ import annotations

import argparse
import json
import sys

from app.operator import arguments
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.load_plan import plan_load
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.terminal import report_unreachable
from app.settings.model import load
from connectors.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination and its tables."""
    parser.epilog = (
        "`python -m spark_sink load` reads the rows by this plan, in parallel and straight into the warehouse. "
        "Make the plan right before, as it shows tables and mapping as they are now."
    )
    arguments.add_destination(parser)
    arguments.add_tables(parser)
    parser.add_argument(
        "--keep-refused",
        action="store_true",
        help="keep tables that the sink cannot read in the plan, with the reason, for `spark_sink validate`, "
        "which reports them; `spark_sink load` refuses such a plan",
    )


def run(options: argparse.Namespace) -> int:
    """Print it."""
    if not options.tables:
        raise UsageError("name the tables to read")
    settings = run_operation(with_mapping_in_force(load(), options.destination))
    journal = Journal.of(settings, options.destination)
    plan = run_operation(
        plan_load(journal, options.tables, report_unreachable, keeps_refused=options.keep_refused)
    )
    sys.stdout.write(json.dumps(plan.to_json(), indent=2) + "\n")
    return 0
