"""`python -m app import-canal DIR`: Canal's configuration as settings, a mapping and a report.

Invariant: no server is asked, Canal's files are only read, and no password is copied or printed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from app.migrate.canal.configuration import Surroundings
from app.migrate.canal.importing import import_canal
from app.operator.commands.migration import add_output, write_and_report


def configure(parser: argparse.ArgumentParser) -> None:
    """Take Canal's folder, and what it reads beside its files."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="Canal's conf folder")
    parser.add_argument(
        "--prefix", default="aq", help="prefix of all topics (default: %(default)s)"
    )
    parser.add_argument(
        "-D",
        dest="properties",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a system property of Canal's Java process; may be repeated",
    )
    parser.add_argument(
        "--cursor",
        dest="cursors",
        action="append",
        default=[],
        type=_pair,
        metavar="INSTANCE=FILE",
        help="an instance's cursor as ZooKeeper or meta.dat has it, in a file; may be repeated",
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Import; return the exit code."""
    surroundings = Surroundings(
        system_properties=dict(options.properties),
        environment=dict(os.environ),
        cursor_files={name: Path(file) for name, file in options.cursors},
    )
    found = import_canal(options.folder, surroundings, prefix=options.prefix)
    return write_and_report(found, options.output, options.format, accepted=options.accepted)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
