"""`python -m app cursor skip`: leave exactly one transaction out.

The law: it is named by its GTID, or where there are none by where it begins; nothing of it is published, and
all before and behind it is. The word is kept, and the worker writes beside it that it was done.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from dataclasses import replace

from app.commands.cursor.epoch_claim import Change, add_reason, claim, confirm
from app.commands.journal_access import Journal, operator
from app.commands.source_connection import reached
from connectors.errors import AlreadyBehind, PositionWithin, SourceDiverged, UsageError
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, parse_gtids
from tables.cursor import Cursor
from tables.journal.state import DestinationState
from tables.operator.skips import Skip, note_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a transaction and a reason."""
    parser.epilog = (
        "A worker that leads, or has FAILED at it, goes on by itself. What the transaction did to tables' "
        "definitions is followed all the same; what it did to rows is lost to subscribers. An XA transaction "
        "is skipped by the GTID of its XA COMMIT."
    )
    parser.add_argument("destination", metavar="DEST")
    parser.add_argument("--gtid", metavar="GTID", help="of the one transaction")
    parser.add_argument("--file", metavar="FILE", help="on a server without GTIDs: its binlog file")
    parser.add_argument("--pos", type=int, metavar="N", help="and where it begins there")
    add_reason(parser)


def run(options: argparse.Namespace) -> int:
    """Say it; 0 once it stands in the journal."""
    asked = Journal.of(options.destination)
    state = asked.state(whole_history=False)
    cursor = state.cursor
    assert cursor is not None
    transaction = _transaction(options, asked, state, cursor)
    _refuse_if_behind(transaction, cursor)
    cost = f"all that {transaction} did is never published"
    confirm(options, f"{options.destination}: {cost}")

    def change(state: DestinationState, _installation: str) -> Change:
        now = state.cursor
        assert now is not None
        _refuse_if_behind(transaction, now)
        skip = Skip(
            destination=state.destination,
            transaction=transaction,
            id=uuid.uuid4().hex[:12],
            by=operator(),
            why=options.why,
            ts_ms=time.time_ns() // 1_000_000,
        )
        return Change(
            cursor=replace(now),
            what="skip",
            after=transaction,
            effect=cost,
            notes=[note_of(skip)],
        )

    told = claim(asked, change, why=options.why)
    sys.stdout.write(
        f"{options.destination}: {transaction} will be skipped; said in epoch {told.epoch}\n"
    )
    return 0


def _transaction(
    options: argparse.Namespace, asked: Journal, state: DestinationState, cursor: Cursor
) -> str:
    """The transaction's id; raise UsageError where none is named."""
    if bool(options.gtid) == bool(options.file):
        raise UsageError("name the transaction by --gtid, or by --file and --pos without GTIDs")
    if options.gtid:
        return _gtid(options.gtid, cursor)
    if options.pos is None:
        raise UsageError("--file needs --pos, where the transaction begins")
    if cursor.offset.gtid_set is not None:
        raise UsageError("the source has GTIDs; name the transaction by --gtid")
    place = Coordinates(options.file, options.pos)
    source = reached(asked, state, server_uuid=cursor.offset.server_uuid)
    address, found = source.address, source.facts.server_uuid
    if found != cursor.offset.server_uuid:
        raise SourceDiverged(
            f"the cursor is of server {cursor.offset.server_uuid}, and the one that answers is {found}: "
            "without GTIDs nothing tells which transaction of the one is that of the other",
            source=address,
            remedy="Name a place of the server that the worker reads, once it answers.",
        )
    for span in Spans(address, options.file):
        if span.start == place:
            return f"{found}:{place}"
        if span.end.order > place.order:
            raise PositionWithin(f"{place} is not where {span.start} begins, up to {span.end}")
    raise PositionWithin(f"no transaction begins at {place}", source=address)


def _gtid(text: str, cursor: Cursor) -> str:
    gtids = cursor.offset.gtid_set
    if gtids is None:
        raise UsageError("the source has no GTIDs; name the transaction by --file and --pos")
    try:
        one = parse_gtids(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if type(one) is not type(gtids):
        raise UsageError(f"{text} is not a GTID of such a server; the cursor is at {gtids}")
    if isinstance(one, GtidSet) and one.count() != 1:
        raise UsageError(f"{text} is not one GTID")
    if "," in str(one):
        raise UsageError(f"{text} is not one GTID")
    return str(one)


def _refuse_if_behind(transaction: str, cursor: Cursor) -> None:
    gtids, is_behind = cursor.offset.gtid_set, False
    if isinstance(gtids, GtidSet):
        is_behind = transaction in gtids
    elif isinstance(gtids, MariadbGtidList):
        is_behind = gtids.holds(transaction)
    else:
        server, _, place = transaction.partition(":")
        is_behind = (
            server == cursor.offset.server_uuid
            and Coordinates.parse(place).order < cursor.offset.coordinates.order
        )
    if is_behind:
        raise AlreadyBehind(transaction, destination=cursor.destination, cursor=cursor.offset)
