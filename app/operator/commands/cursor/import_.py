"""`python -m app cursor import`: take a cursor that was exported from another installation.

Invariant: only output of `cursor export` is accepted, and only after its cost is shown and
confirmed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from app.operator.arguments import add_destination
from app.operator.commands.cursor.export import FORM, WHAT
from app.operator.commands.cursor.move import confirm_and_move
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.cursor.import_ import plan_import
from app.operator.terminal import add_reason, report_unreachable
from app.settings.model import load
from connectors.errors import JournalDamaged, UsageError
from tables.state.cursor import Cursor


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a file."""
    parser.epilog = (
        "A transaction that the exporting installation published in part is published whole here. Stop the "
        "destination there first, for good."
    )
    add_destination(parser)
    parser.add_argument("export", type=Path, metavar="FILE.json", help="output of `cursor export`")
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Import it; 0 once it is in the journal."""
    journal, given = Journal.of(load(), options.destination), _read(options.export)
    return confirm_and_move(options, run_operation(plan_import(journal, given, report_unreachable)))


def _read(path: Path) -> Cursor:
    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict) or value.get("what") != WHAT:
        raise UsageError(f"{path} is not an output of `cursor export`")
    if value.get("form") != FORM:
        raise UsageError(
            f"{path} has format version {value.get('form')}, this version reads {FORM}"
        )
    try:
        return Cursor.from_json(value["cursor"])
    except (KeyError, JournalDamaged) as error:
        raise UsageError(f"{path} has no complete cursor: {error}") from None
