"""`python -m app import-debezium FILE.json`: a connector as settings, a mapping and a report.

Invariant: no server is asked, and no password is copied or printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.migrate.debezium.importing import import_debezium
from app.operator.commands.migration import add_output, write_and_report


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the connector, and the offset at which it was stopped."""
    parser.add_argument(
        "connector",
        type=Path,
        metavar="FILE.json",
        help="configuration of a connector for MySQL or MariaDB, with or without its name",
    )
    parser.add_argument(
        "--offsets",
        type=Path,
        metavar="FILE",
        help="its offset: the answer of GET /connectors/NAME/offsets, or the value in Connect's topic",
    )
    parser.add_argument("--prefix", default="", help="prefix of all topics (default: topic.prefix)")
    parser.add_argument(
        "--worker",
        type=Path,
        metavar="FILE",
        help="the properties of Kafka Connect's worker, whose converters apply if the connector names none",
    )
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Import; return the exit code."""
    found = import_debezium(
        options.connector, offsets=options.offsets, prefix=options.prefix, worker=options.worker
    )
    return write_and_report(found, options.output, options.format, accepted=options.accepted)
