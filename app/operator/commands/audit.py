"""`python -m app audit DEST`: prove that nothing was lost or repeated, without trusting our own
reading.

Invariant: read-only, beside a running worker. Exit 0: everything is right; 1: something is wrong;
3: nothing is wrong in what was judged, but not all could be, mostly as the witness could not read all rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.audit.truth.witness import WitnessName
from app.operator import arguments
from app.operator.event_loop import run_operation
from app.operator.operations.audit import (
    AuditRequest,
    ByMysqlbinlog,
    ByMysqlReplication,
    GivenBinlogs,
    WitnessChoice,
    audit_destination,
)
from app.operator.output import print_answer
from app.settings.model import load
from connectors.errors import UsageError

INCOMPLETE = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what to audit, and the witnesses."""
    arguments.add_destination(parser)
    arguments.add_position(
        parser, "--from", "only changes after this GTID set, or at and after this position"
    )
    arguments.add_position(parser, "--to", "only changes in this GTID set, or up to this position")
    parser.add_argument(
        "--witness",
        choices=[name.value for name in WitnessName],
        help="reader of the source's binlog; default: mysqlbinlog if installed, else mysql-replication",
    )
    parser.add_argument(
        "--mysqlbinlog",
        metavar="COMMAND",
        help="command of MySQL's mysqlbinlog; default: the one on the PATH",
    )
    parser.add_argument(
        "--binlogs",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="binlog files, oldest first, instead of the server's; --server names the server that wrote them",
    )
    arguments.add_server(parser)
    warehouse = parser.add_mutually_exclusive_group()
    warehouse.add_argument(
        "--sink",
        metavar="FILE",
        type=Path,
        help="the sink's settings file; audits its warehouse too",
    )
    warehouse.add_argument(
        "--warehouse",
        metavar="FILE",
        type=Path,
        help="the same, from a file that `python -m spark_sink dump FILE` wrote where the sink runs",
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Make the audit and print the result; return the exit code."""
    verdict = run_operation(audit_destination(load(), _request(options)))
    print_answer(options.format, verdict.to_json(), verdict.lines())
    if not verdict.is_clean:
        return 1
    return 0 if verdict.is_complete else INCOMPLETE


def _request(options: argparse.Namespace) -> AuditRequest:
    return AuditRequest(
        destination=options.destination,
        begin=getattr(options, "from"),
        until=options.to,
        witness=witness_choice(options),
        sink=options.sink,
        dump=options.warehouse,
    )


def witness_choice(options: argparse.Namespace) -> WitnessChoice:
    """Return the witness of the options; raise UsageError if they contradict each other."""
    names_program = options.mysqlbinlog or options.binlogs
    if options.witness == WitnessName.MYSQL_REPLICATION.value:
        if names_program:
            raise UsageError(
                "--witness mysql-replication reads the server itself; "
                "--mysqlbinlog and --binlogs cannot be combined with it"
            )
        return ByMysqlReplication()
    if options.witness is None and not names_program:
        return None
    return ByMysqlbinlog(command=options.mysqlbinlog, binlogs=_binlogs(options))


def _binlogs(options: argparse.Namespace) -> GivenBinlogs | None:
    if not options.binlogs:
        return None
    if options.server is None:
        raise UsageError("--binlogs needs --server UUID, the server that wrote the files")
    return GivenBinlogs(paths=tuple(options.binlogs), server_uuid=options.server)
