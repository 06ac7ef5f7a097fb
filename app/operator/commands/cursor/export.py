"""`python -m app cursor export`: the cursor as JSON, for another installation.

Invariant: its output is all that `cursor import` needs, with its format's number.
"""

from __future__ import annotations

import argparse
import json
import sys

from app.operator.arguments import add_destination
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.cursor.view import export_cursor
from app.settings.model import load

FORM = 1
WHAT = "aqueduct cursor"


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    parser.epilog = (
        "Stop the destination first: what it publishes later is published again by the installation that "
        "imports the cursor."
    )
    add_destination(parser)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    found = run_operation(export_cursor(Journal.of(load(), options.destination)))
    value = {
        "what": WHAT,
        "form": FORM,
        "prefix": found.prefix,
        "exported_ms": found.exported_ms,
        "cursor": found.cursor.to_json(),
    }
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0
