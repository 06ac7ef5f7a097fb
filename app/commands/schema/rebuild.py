"""`python -m app schema rebuild`: the statements that make all tables again as they were at a place.

The law: what the history does not know is a comment in its place, and the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from app.commands import arguments
from app.commands.output import answer
from app.commands.schema_history import Tell, source_of, told
from connectors.mysql.ddl.show_create import create_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a place, and perhaps a database."""
    arguments.add_destination(parser)
    arguments.add_place(parser, "--at", "as they were there; without it, as the history ends")
    arguments.add_server(parser)
    arguments.add_store(parser)
    parser.add_argument("--database", metavar="DB", help="only this one")
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the statements; the exit code."""
    view = source_of(options, tell)(options.destination).at(options.at, options.server)
    texts = _chosen(view.snapshot(create_table), options.database)
    if options.format == "json":
        answer("json", {"databases": texts}, [])
    else:
        # To be run as they are, so nothing in a name may be escaped or taken for the end of a line.
        sys.stdout.write("".join(f"{text.rstrip()}\n\n" for text in texts.values()))
    lacking = [name for name in view.unresolved() if name[0] in texts]
    return 1 if lacking or (options.database and not texts) else 0


def _chosen(texts: Mapping[str, str], database: str | None) -> dict[str, str]:
    if database is None:
        return dict(texts)
    return {name: text for name, text in texts.items() if name == database}
