"""Requests something of the snapshots of tables, and prints what a worker made of it."""

from __future__ import annotations

import argparse

from app.operator import arguments
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.mapping.in_force import with_mapping_in_force
from app.operator.operations.snapshot.request import (
    RequestedSnapshots,
    WantedSnapshot,
    request_snapshots,
)
from app.operator.output import print_answer
from app.operator.request import UNCONFIRMED, add_waiting, seconds_of
from app.operator.terminal import operator, report_unreachable
from app.settings.model import load
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, its tables, and how long to wait."""
    arguments.add_destination(parser)
    arguments.add_tables(parser)
    add_waiting(parser)
    arguments.add_format(parser)


def request(destination: str, wanted: WantedSnapshot, options: argparse.Namespace) -> int:
    """Request it; 0 once a worker has applied it, 1 if it failed for a table. Raises NotApplied if none did."""
    settings = run_operation(with_mapping_in_force(load(), destination))
    journal = Journal.of(settings, destination)
    found = run_operation(
        request_snapshots(
            journal, wanted, report_unreachable, by=operator(), wait=seconds_of(options)
        )
    )
    print_answer(options.format, _value(found), _lines(found))
    has_failed = any(one.state is SnapshotState.FAILED for one in found.applied or ())
    return 1 if has_failed else 0


def _value(found: RequestedSnapshots) -> dict[str, object]:
    applied = {one.name: one for one in found.applied or ()}
    return {
        "request": found.requests[0].id,
        "tables": {
            ".".join(one.name): applied[one.name].to_json() if one.name in applied else None
            for one in found.requests
        },
    }


def _lines(found: RequestedSnapshots) -> list[str]:
    if found.applied is None:
        action = found.requests[0].action.value
        return [f"{'.'.join(one.name)}: {action} {UNCONFIRMED}" for one in found.requests]
    return [_line(one) for one in found.applied]


def _line(one: TableSnapshot) -> str:
    text = f"{'.'.join(one.name)}: {one.state.value}, {one.rows} row(s) read"
    return text if one.error is None else f"{text}: {one.error}"
