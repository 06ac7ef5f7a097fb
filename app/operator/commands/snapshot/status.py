"""`python -m app snapshot status`: what is read of each table's existing rows, and how long it may take.

Invariant: what the server estimates is shown as an estimate.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

from app.operator.commands import arguments
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import aligned_table, print_answer
from app.operator.operations.journal_access import Journal
from app.operator.operations.snapshot.progress import ProgressReader, SnapshotProgress
from app.settings.model import load
from wire.text import printed

_SECONDS = 1.0
_BAR = 24
_HEAD = ("table", "state", "rows", "of about", "", "rows/s", "left", "error")
_UP = "\x1b[{}A\x1b[J"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add whether to watch it."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show it again each second, until nothing is being read",
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print it; 0 unless a table failed, then 1."""
    reader = ProgressReader(Journal.of(load(), options.destination))
    shown = 0
    while True:
        found = run_operation(reader.read())
        lines = _lines(found, now_ms=time.time_ns() // 1_000_000)
        if shown and sys.stdout.isatty():
            sys.stdout.write(_UP.format(shown))
        print_answer(options.format, _value(found), lines)
        sys.stdout.flush()
        shown = len(lines)
        if found.is_ended or not options.watch:
            break
        time.sleep(_SECONDS)
    return 1 if any(one["state"] == "failed" for one in found.tables.values()) else 0


def _value(found: SnapshotProgress) -> dict[str, Any]:
    return {
        "tables": found.tables,
        "waits": list(found.waits),
        "leader_unanswered": found.unanswered,
    }


def _lines(found: SnapshotProgress, *, now_ms: int) -> list[str]:
    lines = ["no table's existing rows were read"]
    if found.tables:
        rows = [_row(name, one, now_ms) for name, one in found.tables.items()]
        lines = aligned_table(_HEAD, rows)
    lines += map(printed, found.waits)
    if not found.tables:
        return lines
    if found.unanswered is not None:
        lines.append(f"as the journal has it: {printed(found.unanswered)}")
    return lines


def _row(name: str, one: Mapping[str, Any], now_ms: int) -> list[str]:
    rows, estimate = one["rows"], one["estimated_rows"]
    is_read = one["state"] == "reading"
    share = min(rows / estimate, 1.0) if estimate else None
    if one["state"] == "done":
        share = 1.0
    until = now_ms if is_read else one["ts_ms"]
    rate = rows / max((until - one["began_ms"]) / 1000, 0.001) if rows else 0.0
    left = (estimate - rows) / rate if is_read and estimate and rate else None
    return [
        name,
        one["state"],
        f"{rows:,}",
        f"{estimate:,}" if estimate is not None else "-",
        _bar(share),
        f"{rate:,.0f}" if rows else "-",
        _duration(left),
        one["error"] or "-",
    ]


def _bar(share: float | None) -> str:
    if share is None:
        return "-"
    full = int(share * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {share:4.0%}"


def _duration(seconds: float | None) -> str:
    if seconds is None or seconds < 0:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
