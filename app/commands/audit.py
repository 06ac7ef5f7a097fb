"""`python -m app audit DEST`: prove that nothing was lost or repeated, without trusting our own reading.

The law: read-only, and beside a worker that goes on. Exit 0 says that all is right, 1 that something is not, 3
that nothing is wrong in what was judged, and the witness could not read all rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.auditing.truth.witness import WitnessName
from app.commands import arguments
from app.commands.event_loop import completed
from app.commands.output import answer
from app.operations.audit import (
    AuditRequest,
    ByMysqlbinlog,
    ByMysqlReplication,
    GivenBinlogs,
    WitnessChoice,
    audited,
)
from app.settings.model import load
from connectors.errors import UsageError

INCOMPLETE = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Take what to audit, and where the truth is."""
    arguments.add_destination(parser)
    arguments.add_place(
        parser, "--from", "only what is behind this set, or at this place and behind"
    )
    arguments.add_place(parser, "--to", "only what is in this set, or up to this place")
    parser.add_argument(
        "--witness",
        choices=[name.value for name in WitnessName],
        help="who reads the source's binlog; the default is mysqlbinlog if it is found, else mysql-replication",
    )
    parser.add_argument(
        "--mysqlbinlog",
        metavar="COMMAND",
        help="MySQL's program that prints binlogs; without it, the one on the PATH",
    )
    parser.add_argument(
        "--binlogs",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="binlog files, the oldest first, in place of the server's; --server says whose they are",
    )
    arguments.add_server(parser)
    warehouse = parser.add_mutually_exclusive_group()
    warehouse.add_argument(
        "--sink",
        metavar="FILE",
        type=Path,
        help="settings of the sink, whose warehouse is audited too",
    )
    warehouse.add_argument(
        "--warehouse",
        metavar="FILE",
        type=Path,
        help="the same, by what `python -m spark_sink dump FILE` has written where the sink runs",
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Make the audit and tell of it; the exit code."""
    verdict = completed(audited(load(), _request(options)))
    answer(options.format, verdict.to_json(), verdict.lines())
    if not verdict.is_clean:
        return 1
    return 0 if verdict.is_complete else INCOMPLETE


def _request(options: argparse.Namespace) -> AuditRequest:
    return AuditRequest(
        destination=options.destination,
        begin=getattr(options, "from"),
        until=options.to,
        witness=witness_of(options),
        sink=options.sink,
        dump=options.warehouse,
    )


def witness_of(options: argparse.Namespace) -> WitnessChoice:
    """The witness that the options name; raise UsageError where they contradict each other."""
    names_program = options.mysqlbinlog or options.binlogs
    if options.witness == WitnessName.MYSQL_REPLICATION.value:
        if names_program:
            raise UsageError(
                "mysql-replication reads the server itself: give no --mysqlbinlog and no --binlogs with it"
            )
        return ByMysqlReplication()
    if options.witness is None and not names_program:
        return None
    return ByMysqlbinlog(command=options.mysqlbinlog, binlogs=_binlogs(options))


def _binlogs(options: argparse.Namespace) -> GivenBinlogs | None:
    if not options.binlogs:
        return None
    if options.server is None:
        raise UsageError("--binlogs needs --server UUID: whose files they are")
    return GivenBinlogs(paths=tuple(options.binlogs), server_uuid=options.server)
