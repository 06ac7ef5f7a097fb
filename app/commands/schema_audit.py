"""`python -m app schema audit`: every statement that changed tables, with who ran it, when and where.

The law: nothing is left out but what the filters leave out; definitions that a person gave are listed too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from app.commands import arguments
from app.commands.arguments import GivenPlace
from app.commands.report import aligned, answer, one_line, place_text, record_value, when
from app.commands.told_history import Tell, ToldHistory, told
from tables.place import AtTime
from tables.schema_record import SchemaRecord


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
    parser.add_argument(
        "--unresolved", action="store_true", help="only statements whose effect is not known"
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the list; the exit code."""
    found = list(_found(tell(options.destination), options))
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
            and (not types or _type(record).startswith(types))
            and (table is None or table in map(told_history.key, record.tables))
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


def _type(record: SchemaRecord) -> str:
    return record.type.upper() if record.kind == "statement" else record.kind.upper()


def _row(record: SchemaRecord) -> list[str]:
    place = record.place
    return [
        when(place.ts_ms),
        place_text(place),
        str(place.server_id),
        str(place.thread),
        place.user or "-",
        record.outcome,
        _type(record),
        " ".join(".".join(name) for name in record.tables) or "-",
        one_line(record.statement),
    ]
