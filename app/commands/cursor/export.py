"""`python -m app cursor export`: the cursor as JSON, for another installation.

The law: what it prints is all that `cursor import` needs, with the number of its form.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from app.commands.arguments import add_destination
from app.commands.journal_access import Journal

FORM = 1
WHAT = "aqueduct cursor"


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    parser.epilog = (
        "Stop the destination first: what it publishes later comes again where this is taken."
    )
    add_destination(parser)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    asked = Journal.of(options.destination)
    cursor = asked.state(whole_history=False).cursor
    assert cursor is not None
    found = {
        "what": WHAT,
        "form": FORM,
        "prefix": asked.settings.prefix,
        "exported_ms": time.time_ns() // 1_000_000,
        "cursor": cursor.to_json(),
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0
