"""`python -m app schema history`: the versions of a table, or a list of all tables.

Invariant: every step that touched the table is listed, also those whose effect is not known.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal, history_reader
from app.operator.event_loop import run_operation
from app.operator.operations.schema.destination_history import ReadHistory
from app.operator.operations.schema.statement_log import record_kind
from app.operator.operations.schema.table_history import (
    Step,
    TableHistory,
    TableSummary,
    table_history,
    table_summaries,
)
from app.operator.output import (
    aligned_table,
    difference_value,
    position_text,
    print_answer,
    quarantine_lines,
    quarantine_value,
    record_value,
    time_text,
)
from connectors.mysql.ddl.definition import TableName
from tables.history.record import Known


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a destination, and optionally a table."""
    arguments.add_destination(parser)
    arguments.add_table(parser, optional=True)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the versions, or all tables; return the exit code."""
    read = history_reader(options, read_by_name)
    return _all(options, read) if options.table is None else _one(options, read)


def _all(options: argparse.Namespace, read: ReadHistory) -> int:
    rows = [_row(one) for one in run_operation(table_summaries(read))]
    head = ["table", "state", "steps", "since", "quarantine"]
    lines = aligned_table(head, [[_cell(row[key]) for key in head] for row in rows])
    print_answer(options.format, {"destination": options.destination, "tables": rows}, lines)
    return 0


def _one(options: argparse.Namespace, read: ReadHistory) -> int:
    found = run_operation(table_history(read, options.table))
    entry = found.quarantine
    value = {
        "table": ".".join(options.table),
        "quarantine": quarantine_value(entry),
        "steps": [_value(step) for step in found.steps],
    }
    lines = list(_lines(options.table, found))
    lines += ["", *quarantine_lines(entry)] if entry is not None else []
    print_answer(options.format, value, lines)
    return 0 if found.now is not None else 1


def _value(step: Step) -> dict[str, Any]:
    found = [difference_value(one) for one in step.differences]
    return {**record_value(step.record), "differences": found}


def _lines(name: TableName, found: TableHistory) -> Iterator[str]:
    begin, known = found.begin, isinstance(found.at_begin, Known)
    what = "known" if known else "not known" if found.at_begin else "does not exist"
    title = ".".join(name)
    yield f"{title}  {what} at the beginning of the history: {time_text(begin.ts_ms)}  {position_text(begin)}"
    for step in found.steps:
        yield ""
        yield from _step_lines(step)


def _step_lines(step: Step) -> Iterator[str]:
    record, what = step.record, record_kind(step.record)
    yield f"{record.number}  {time_text(record.position.ts_ms)}  {position_text(record.position)}  {what}"
    if record.given is not None:
        yield f"    given by {record.given.by}, {time_text(record.given.ts_ms)}"
    if record.reason is not None:
        yield f"    not resolved: {record.reason}"
    yield from (f"    {one}" for one in step.differences)


def _row(one: TableSummary) -> dict[str, Any]:
    entry = one.quarantine
    return {
        "table": ".".join(one.name),
        "state": type(one.state).__name__.lower(),
        "steps": one.steps,
        "since": time_text(one.state.since.ts_ms),
        "quarantine": entry and ("given up" if entry.is_given_up else "quarantined"),
    }


def _cell(value: object) -> str:
    """Return a value as text."""
    return "" if value is None else str(value)
