"""`python -m app schema audit`: who changed or emptied tables, by which statement, when and where.

The law: nothing is left out but what the filters leave out; what a person said of a table is listed too, with
who said it and when.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from app.commands import arguments
from app.commands.arguments import GivenPlace
from app.commands.output import (
    aligned,
    answer,
    one_line,
    place_text,
    record_kind,
    record_value,
    when,
)
from app.commands.schema_history import Tell, ToldHistory, source_of, told
from tables.schema_history.position import AtTime
from tables.schema_history.record import SchemaRecord


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the filters."""
    arguments.add_destination(parser)
    parser.add_argument(
        "--type",
        metavar="WORDS",
        action="append",
        default=[],
        help="only statements that begin with these words, such as 'DROP' or 'ALTER TABLE'; may be repeated",
    )
    parser.add_argument(
        "--table", metavar="db.table", type=arguments.table, help="only of this table"
    )
    arguments.add_place(parser, "--since", "only what came behind this place")
    arguments.add_place(parser, "--until", "only what came up to this place")
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument(
        "--unresolved", action="store_true", help="only statements whose effect is not known"
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the list; the exit code."""
    found = list(_found(source_of(options, tell)(options.destination), options))
    value = {
        "destination": options.destination,
        "statements": [record_value(record) for record in found],
    }
    head = ["when", "where", "server", "thread", "user", "outcome", "type", "tables", "statement"]
    answer(options.format, value, aligned(head, map(_row, found)))
    return 0


def _found(told_history: ToldHistory, options: argparse.Namespace) -> Iterator[SchemaRecord]:
    first, last = (
        _mark(told_history, place, options.server) for place in (options.since, options.until)
    )
    types = tuple(words.upper() for words in options.type)
    table = None if options.table is None else told_history.key(options.table)
    for record in told_history.history.records:
        if (
            record.kind != "baseline"
            and (first is None or not _is_up_to(record, first))
            and (last is None or _is_up_to(record, last))
            and (not types or record_kind(record).upper().startswith(types))
            and (table is None or table in map(told_history.key, record.concerned))
            and (not options.unresolved or record.reason is not None)
        ):
            yield record


def _mark(
    told_history: ToldHistory, place: GivenPlace | None, server: str | None
) -> AtTime | int | None:
    """A time, or the number of the last step as of a place."""
    if place is None:
        return None
    asked = told_history.asked(place, server)
    return asked if isinstance(asked, AtTime) else told_history.history.at(asked).number


def _is_up_to(record: SchemaRecord, mark: AtTime | int) -> bool:
    if isinstance(mark, AtTime):
        return record.place.ts_ms <= mark.ts_ms
    return record.number <= mark


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
