"""`python -m app schema audit`: who changed or emptied tables, by which statement, when and where.

Invariant: only the filters exclude a statement; definitions given by operators are listed too, with
author and time.
"""

from __future__ import annotations

import argparse

from app.commands import arguments
from app.commands.event_loop import completed
from app.commands.output import aligned, answer, one_line, place_text, record_value, when
from app.commands.schema.history_source import Tell, read_of, told
from app.operations.schema.statement_log import Filters, logged, record_kind
from tables.schema_history.record import SchemaRecord


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
        "--table", metavar="db.table", type=arguments.table, help="only statements on this table"
    )
    arguments.add_place(parser, "--since", "only statements after this position")
    arguments.add_place(parser, "--until", "only statements up to this position")
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument(
        "--unresolved", action="store_true", help="only statements whose effect is not known"
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the list; return the exit code."""
    found = completed(logged(read_of(options, tell), _filters(options)))
    value = {
        "destination": options.destination,
        "statements": [record_value(record) for record in found],
    }
    head = ["when", "where", "server", "thread", "user", "outcome", "type", "tables", "statement"]
    answer(options.format, value, aligned(head, map(_row, found)))
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
    place, given = record.place, record.given
    return [
        when(given.ts_ms if given else place.ts_ms),
        place_text(place),
        str(place.server_id),
        str(place.thread),
        (given.by if given else place.user) or "-",
        record.outcome,
        record_kind(record).upper(),
        " ".join(".".join(name) for name in record.concerned) or "-",
        one_line(record.statement),
    ]
