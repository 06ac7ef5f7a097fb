"""`python -m app destination list`: all destinations: state, leader, lag, position, error, desired
state.

Invariant: a part that does not answer is named, and the rest is shown.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from app.operator.commands.arguments import add_format
from app.operator.commands.event_loop import run_operation
from app.operator.commands.output import aligned_table, print_answer
from app.operator.operations.destination.listing import (
    NOT_LED,
    ListedDestination,
    list_destinations,
)
from app.settings.model import load
from tables.state.operator_requests import DesiredState

_HEAD = (
    "destination",
    "state",
    "wish",
    "leader",
    "epoch",
    "lag",
    "position",
    "candidates",
    "error",
)
_UNWELL = (None, NOT_LED, "FAILED")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the output format."""
    parser.add_argument("--all", action="store_true", help="include deleted ones")
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print them. Return 1 if one is FAILED or NOT LED, or if a leader or ZooKeeper does not answer."""
    found = run_operation(list_destinations(load()))
    shown = [
        _value(one)
        for one in found.destinations
        if options.all or one.desired is not DesiredState.DELETE
    ]
    print_answer(options.format, shown, aligned_table(list(_HEAD), [_row(each) for each in shown]))
    if found.fault is not None:
        sys.stderr.write(f"aqueduct: {found.fault.name}: {found.fault}\n")
    is_well = all(each["state"] not in _UNWELL for each in shown)
    return 0 if found.fault is None and is_well else 1


def _value(one: ListedDestination) -> dict[str, Any]:
    cursor = one.cursor
    return {
        "destination": one.name,
        "wish": one.desired.value,
        "said_by": one.requested_by,
        "leader": one.leader,
        "address": one.address,
        "candidates": list(one.candidates),
        "epoch": cursor.epoch if cursor else None,
        "seq": cursor.seq if cursor else None,
        "position": str(cursor.offset.coordinates) if cursor else None,
        "gtid_set": str(cursor.offset.gtid_set) if cursor and cursor.offset.gtid_set else None,
        "state": one.run.state,
        "error": one.run.error,
        "lag_seconds": one.run.lag_seconds,
    }


def _row(value: dict[str, Any]) -> list[str]:
    lag = value["lag_seconds"]
    shown = {**value, "lag": None if lag is None else f"{lag:.1f} s"}
    return [_cell(shown[column]) for column in _HEAD]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value) or "-"
    return "-" if value is None else str(value)
