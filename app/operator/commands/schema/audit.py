"""`python -m app schema audit`: who changed or emptied tables, by which statement, when and where.

Invariant: only the filters exclude a statement; definitions given by operators are listed too, with
author and time.
"""

from __future__ import annotations

import argparse

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal, history_reader
from app.operator.event_loop import run_operation
from app.operator.operations.schema.statement_log import Filters, filtered_records, record_kind
from app.operator.output import (
    aligned_table,
    position_text,
    print_answer,
    record_value,
    shortened,
    time_text,
)
from tables.history.record import SchemaRecord


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--type",
        metavar="WORDS",
        action="append",
        default=[],
        help="only statements that begin with these words, such as 'DROP' or 'ALTER TABLE'; may be repeated",
    )
    parser.add_argument(
        "--table",
        metavar="db.table",
        type=arguments.parse_table,
        help="only statements on this table",
    )
    arguments.add_position(parser, "--since", "only statements after this position")
    arguments.add_position(parser, "--until", "only statements up to this position")
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument(
        "--unresolved", action="store_true", help="only statements whose effect is not known"
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the list; return the exit code."""
    found = run_operation(
        filtered_records(history_reader(options, read_by_name), _filters(options))
    )
    value = {
        "destination": options.destination,
        "statements": [record_value(record) for record in found],
    }
    head = ["when", "where", "server", "thread", "user", "outcome", "type", "tables", "statement"]
    print_answer(options.format, value, aligned_table(head, map(_row, found)))
    return 0


def _filters(options: argparse.Namespace) -> Filters:
    return Filters(
        since=options.since,
        until=options.until,
        server=options.server,
        types=tuple(options.type),
        table=options.table,
        is_unresolved=options.unresolved,
    )


def _row(record: SchemaRecord) -> list[str]:
    position, given = record.position, record.given
    return [
        time_text(given.ts_ms if given else position.ts_ms),
        position_text(position),
        str(position.server_id),
        str(position.thread),
        (given.by if given else position.user) or "-",
        record.outcome,
        record_kind(record).upper(),
        " ".join(".".join(name) for name in record.concerned) or "-",
        shortened(record.statement),
    ]
