"""`python -m app schema diff`: how a table's definition at one place differs from that at another.

The law: exit 0 whether they differ or not; exit 1 where one of them is not known.
"""

from __future__ import annotations

import argparse

from app.commands import arguments
from app.commands.output import answer, difference_value
from app.commands.schema_history import Tell, source_of, told
from tables.schema_history.diff import differences
from tables.schema_history.record import Known, TableState, Unresolved


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a table and two places."""
    arguments.add_destination(parser)
    arguments.add_table(parser)
    arguments.add_place(parser, "--from", "the first definition, as it was there", required=True)
    arguments.add_place(parser, "--to", "the second; without it, as the history ends")
    arguments.add_server(parser)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the differences; the exit code."""
    history = source_of(options, tell)(options.destination)
    views = [history.at(place, options.server) for place in (vars(options)["from"], options.to)]
    old, new = (view.state(*options.table) for view in views)
    found = differences(*(one.table if isinstance(one, Known) else None for one in (old, new)))
    unknown = [one for one in (old, new) if isinstance(one, Unresolved)]
    value = {
        "table": ".".join(options.table),
        "from": _told(old),
        "to": _told(new),
        "differences": [difference_value(one) for one in found],
    }
    lines = [f"not known: {one.reason}" for one in unknown]
    lines += [] if unknown else map(str, found) if found else ["no difference"]
    answer(options.format, value, lines)
    return 1 if unknown or old is new is None else 0


def _told(state: TableState | None) -> str:
    return "unknown" if state is None else type(state).__name__.lower()
