"""`python -m app schema rebuild`: the statements that make all tables as of a position.

Invariant: an unknown table is a comment instead, and the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys

from app.operator import arguments
from app.operator.commands.schema.history_source import ReadByName, from_journal, history_reader
from app.operator.event_loop import run_operation
from app.operator.operations.schema.definitions import rebuild_statements
from app.operator.output import print_answer


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a position, and optionally a database."""
    arguments.add_destination(parser)
    arguments.add_position(
        parser, "--at", "position of the definitions; default: the end of the history"
    )
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument("--database", metavar="DB", help="only this database")
    arguments.add_format(parser)


def run(options: argparse.Namespace, read_by_name: ReadByName = from_journal) -> int:
    """Print the statements; return the exit code."""
    read, database = history_reader(options, read_by_name), options.database
    found = run_operation(
        rebuild_statements(read, options.at, server=options.server, database=database)
    )
    texts = found.statements
    if options.format == "json":
        print_answer("json", {"databases": texts}, [])
    else:
        # To be run as they are, so nothing in a name may be escaped or treated as the end of a
        # line.
        sys.stdout.write("".join(f"{text.rstrip()}\n\n" for text in texts.values()))
    return 0 if found.is_whole and (texts or not database) else 1
