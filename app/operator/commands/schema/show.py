"""`python -m app schema show`: a table's definition at a binlog position.

Invariant: exit 1 if the history has no definition for it there, with the reason. A quarantined
table is marked, since its rows may contradict its definition.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal, history_reader
from app.operator.event_loop import run_operation
from app.operator.operations.schema.definitions import table_at
from app.operator.output import (
    position_text,
    position_value,
    print_answer,
    quarantine_lines,
    quarantine_value,
    table_lines,
    table_value,
    time_text,
)
from connectors.mysql.ddl.definition import TableName
from tables.history.record import Dropped, Known, TableState, Unresolved


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a table and a position."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_position(
        parser, "--at", "position of the definition; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the definition; return the exit code."""
    read = history_reader(options, read_by_name)
    found = run_operation(table_at(read, options.table, options.at, server=options.server))
    state, entry = found.state, found.quarantine
    value = {**_value(options.table, state), "quarantine": quarantine_value(entry)}
    print_answer(options.format, value, [*_lines(options.table, state), *quarantine_lines(entry)])
    return 0 if isinstance(state, Known) else 1


def _value(name: TableName, state: TableState | None) -> dict[str, Any]:
    return {
        "table": ".".join(name),
        "state": "unknown" if state is None else type(state).__name__.lower(),
        "since": None if state is None else position_value(state.since),
        "reason": state.reason if isinstance(state, Unresolved) else None,
        "definition": table_value(state.table) if isinstance(state, Known) else None,
    }


def _lines(name: TableName, state: TableState | None) -> Iterator[str]:
    title = ".".join(name)
    if state is None:
        yield f"{title}: the history has no such table up to that position"
        return
    since = f"{time_text(state.since.ts_ms)}  {position_text(state.since)}"
    match state:
        case Known():
            yield f"{title}  since {since}"
            yield ""
            yield from table_lines(state.table)
        case Dropped():
            yield f"{title}: dropped {since}"
        case Unresolved():
            yield f"{title}: not known since {since}"
            yield f"because {state.reason}"
