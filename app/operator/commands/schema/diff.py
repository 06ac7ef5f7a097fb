"""`python -m app schema diff`: the difference of a table's definitions at two positions.

Invariant: exit 0 whether they differ or not; exit 1 if one of them is not known.
"""

from __future__ import annotations

import argparse

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal, history_reader
from app.operator.event_loop import run_operation
from app.operator.operations.schema.definitions import compare_definitions
from app.operator.output import difference_value, print_answer
from tables.history.record import TableState


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a table and two positions."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_position(parser, "--from", "position of the first definition", required=True)
    arguments.add_position(
        parser, "--to", "position of the second; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the differences; return the exit code."""
    positions = (vars(options)["from"], options.to)
    read = history_reader(options, read_by_name)
    found = run_operation(
        compare_definitions(read, options.table, positions, server=options.server)
    )
    value = {
        "table": ".".join(options.table),
        "from": _state_text(found.old),
        "to": _state_text(found.new),
        "differences": [difference_value(one) for one in found.differences],
    }
    unknown, changed = found.unresolved, found.differences
    lines = [f"not known: {one.reason}" for one in unknown]
    lines += [] if unknown else map(str, changed) if changed else ["no difference"]
    print_answer(options.format, value, lines)
    return 1 if unknown or found.old is found.new is None else 0


def _state_text(state: TableState | None) -> str:
    return "unknown" if state is None else type(state).__name__.lower()
