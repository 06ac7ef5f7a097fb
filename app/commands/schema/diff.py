"""`python -m app schema diff`: the difference of a table's definitions at two positions.

Invariant: exit 0 whether they differ or not; exit 1 if one of them is not known.
"""

from __future__ import annotations

import argparse

from app.commands import arguments
from app.commands.event_loop import completed
from app.commands.output import answer, difference_value
from app.commands.schema.history_source import Tell, read_of, told
from app.operations.schema.definitions import compared
from tables.schema_history.record import TableState


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a table and two positions."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_place(parser, "--from", "position of the first definition", required=True)
    arguments.add_place(parser, "--to", "position of the second; default: the end of the history")
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the differences; return the exit code."""
    places = (vars(options)["from"], options.to)
    read = read_of(options, tell)
    found = completed(compared(read, options.table, places, server=options.server))
    value = {
        "table": ".".join(options.table),
        "from": _state_text(found.old),
        "to": _state_text(found.new),
        "differences": [difference_value(one) for one in found.differences],
    }
    unknown, changed = found.unresolved, found.differences
    lines = [f"not known: {one.reason}" for one in unknown]
    lines += [] if unknown else map(str, changed) if changed else ["no difference"]
    answer(options.format, value, lines)
    return 1 if unknown or found.old is found.new is None else 0


def _state_text(state: TableState | None) -> str:
    return "unknown" if state is None else type(state).__name__.lower()
