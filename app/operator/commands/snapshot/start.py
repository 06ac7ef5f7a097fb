"""`python -m app snapshot start`: the existing rows of tables are published, while changes are too.

Invariant: see ``request``.
"""

from __future__ import annotations

import argparse

from app.operator.commands.snapshot import request as requests
from app.operator.operations.snapshot.request import WantedSnapshot
from connectors.errors import UsageError
from tables.state.snapshots.request import SnapshotAction


def configure(parser: argparse.ArgumentParser) -> None:
    """Add tables, and a condition on their rows."""
    parser.epilog = (
        "Rows come with op r, in the same topics as changes, and never after a newer image of themselves. Rows "
        "that subscribers have already come again. `snapshot status` shows the progress."
    )
    requests.configure(parser)
    parser.add_argument("--all", action="store_true", help="all captured tables")
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="a condition in SQL on the rows to read: \"region = 'EU'\"",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="first publish that all rows of the table are gone, so that vanished ones do not stay",
    )


def run(options: argparse.Namespace) -> int:
    """See ``request.request``."""
    if bool(options.tables) == options.all:
        raise UsageError("name the tables to read, or give --all")
    if options.replace and options.where is not None:
        raise UsageError("--replace is of all rows of a table: leave out --where")
    wanted = WantedSnapshot(
        action=SnapshotAction.START,
        tables=options.tables,
        where=options.where,
        replaces=options.replace,
    )
    return requests.request(options.destination, wanted, options)
