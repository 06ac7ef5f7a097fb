"""`python -m app cursor show`: a destination's position, pending skips, and the operators' changes."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from app.operator.commands.arguments import add_destination, add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import print_answer
from app.operator.operations.cursor.view import CursorView, read_cursor
from app.operator.operations.journal_access import Journal
from app.settings.model import load
from wire.text import utc


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    add_destination(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    found = _value(run_operation(read_cursor(Journal.of(load(), options.destination))))
    if options.format == "json":
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print_answer("text", None, _lines(found))
    return 0


def _value(view: CursorView) -> dict[str, Any]:
    return {
        "cursor": view.cursor.to_json(),
        "source": view.source and asdict(view.source),
        "skips": [asdict(one) for one in view.skips],
        "interventions": [asdict(one) for one in view.interventions],
    }


def _lines(found: dict[str, Any]) -> list[str]:
    cursor = found["cursor"]
    lines = [
        f"destination {cursor['destination']} of installation {cursor['installation']}",
        f"server      {cursor['server_uuid']}",
        f"position    {cursor['file']}:{cursor['pos']}",
        f"gtids       {'none' if cursor['gtid_set'] is None else cursor['gtid_set'] or 'the empty set'}",
        f"seq         {cursor['seq']}, epoch {cursor['epoch']}",
    ]
    if found["source"] is not None:
        source = found["source"]
        lines.append(
            f"source      {source['address']} since {utc(source['ts_ms'])}: {source['why']}"
        )
    if cursor["resume"] is not None:
        resume = cursor["resume"]
        lines.append(
            f"within      {resume['transaction_id']}, {resume['rows']} row(s) of it are published"
        )
    lines += [
        f"prepared    {xid} at {at['file']}:{at['pos']}" for xid, at in cursor["prepared"].items()
    ]
    for skip in found["skips"]:
        done = (
            f"done at {skip['done']}, {skip['events']} event(s)"
            if skip["done"]
            else "not reached yet"
        )
        lines.append(f"skip        {skip['transaction']}: {done}")
    for one in found["interventions"]:
        lines.append(
            f"changed     {utc(one['ts_ms'])} by {one['by']} in epoch {one['epoch']}: {one['what']} "
            f"from {one['before'] or 'nothing'} to {one['after']} ({one['effect']}): {one['why']}"
        )
    return lines
