"""`python -m app cursor skip`: skip exactly one transaction.

Invariant: only after its cost is shown and confirmed.
"""

from __future__ import annotations

import argparse
import sys

from app.operator.arguments import add_destination, add_gtid_or_file
from app.operator.event_loop import run_operation
from app.operator.journal_access import Journal
from app.operator.operations.cursor.skip import NamedTransaction, plan_skip, request_skip
from app.operator.terminal import add_reason, confirm, reason_of, report_unreachable
from app.settings.model import load
from connectors.errors import UsageError
from connectors.mysql.position import Coordinates


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a transaction and a reason."""
    parser.epilog = (
        "The leader continues by itself, also after it FAILED at this transaction. The transaction's schema "
        "changes are still applied to the schema history; its row changes are lost to subscribers. An XA "
        "transaction is skipped by the GTID of its XA COMMIT."
    )
    add_destination(parser)
    add_gtid_or_file(
        parser,
        metavar="GTID",
        gtid="the transaction's GTID",
        file="on a server without GTIDs: the transaction's binlog file",
        pos="and the position at which it begins",
    )
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Request it; 0 once it is in the journal."""
    journal = Journal.of(load(), options.destination)
    planned = run_operation(plan_skip(journal, named_transaction(options), report_unreachable))
    confirm(options, f"{options.destination}: {planned.effect}")
    change = run_operation(request_skip(planned, reason_of(options)))
    sys.stdout.write(
        f"{options.destination}: {planned.transaction} will be skipped; recorded in epoch {change.epoch}\n"
    )
    return 0


def named_transaction(options: argparse.Namespace) -> NamedTransaction:
    """Return the transaction of the options; raise UsageError for none or two."""
    if bool(options.gtid) == bool(options.file):
        raise UsageError("name the transaction by --gtid, or by --file and --pos without GTIDs")
    if options.gtid:
        return str(options.gtid)
    if options.pos is None:
        raise UsageError("--file needs --pos, where the transaction begins")
    return Coordinates(options.file, options.pos)
