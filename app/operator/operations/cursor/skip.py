"""Operator skip of one transaction in two steps: found, so that an operator can confirm its cost,
and requested.

Invariant: it is named by its GTID, or without GTIDs by its first position; nothing of it is
published, and all transactions before and after it are. The request is kept, and the worker records
beside it that it was done.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from functools import partial

from app.operator.operations.cursor.epoch_claim import Change, ChangeReason, commit_change
from app.operator.operations.journal_access import Journal
from app.operator.operations.source_connection import ReportUnreachable, reachable_source
from app.worker.destination.background import in_its_own_thread
from connectors.errors import AlreadyPast, PositionWithin, SourceDiverged, UsageError
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, parse_gtids
from connectors.mysql.server.facts import SourceAddress
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Intervention, Skip, skip_note

NamedTransaction = str | Coordinates
"""A transaction as an operator names it: by its GTID, or without GTIDs by the position where it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSkip:
    """A transaction that the cursor has not passed yet."""

    journal: Journal
    transaction: str
    """Its GTID; without GTIDs ``server_uuid:file:pos`` of its first event."""
    effect: str
    """The loss that it causes."""


async def plan_skip(
    journal: Journal, named: NamedTransaction, report: ReportUnreachable
) -> PlannedSkip:
    """Return the named transaction; raise UsageError if it is none, AlreadyPast if it is published."""
    state = await journal.state(whole_history=False)
    cursor = state.cursor
    assert cursor is not None
    transaction = await _transaction(named, journal, state, report)
    _refuse_if_past(transaction, cursor)
    effect = f"the changes of {transaction} are never published"
    return PlannedSkip(journal=journal, transaction=transaction, effect=effect)


async def request_skip(planned: PlannedSkip, reason: ChangeReason) -> Intervention:
    """Request the skip; raise AlreadyPast if the transaction was published meanwhile."""

    def change(state: DestinationState, _installation: str) -> Change:
        now = state.cursor
        assert now is not None
        _refuse_if_past(planned.transaction, now)
        skip = Skip(
            destination=state.destination,
            transaction=planned.transaction,
            id=uuid.uuid4().hex[:12],
            by=reason.by,
            why=reason.why,
            ts_ms=time.time_ns() // 1_000_000,
        )
        return Change(
            cursor=replace(now),
            what="skip",
            after=planned.transaction,
            effect=planned.effect,
            notes=[skip_note(skip)],
        )

    return await commit_change(planned.journal, change, reason=reason)


async def _transaction(
    named: NamedTransaction, journal: Journal, state: DestinationState, report: ReportUnreachable
) -> str:
    """Return the transaction's id; raise UsageError if the source has no ids of that kind."""
    cursor = state.cursor
    assert cursor is not None
    if isinstance(named, str):
        return _gtid(named, cursor)
    if cursor.offset.gtid_set is not None:
        raise UsageError("the source has GTIDs; name the transaction by --gtid")
    source = await reachable_source(journal, state, report, server_uuid=cursor.offset.server_uuid)
    found = source.facts.server_uuid
    if found != cursor.offset.server_uuid:
        raise SourceDiverged(
            f"the cursor is at server {cursor.offset.server_uuid}, but server {found} answers: without GTIDs, "
            "transactions of the two cannot be matched",
            source=source.address,
            remedy="Give a position on the server that the worker reads, once it answers.",
        )
    await in_its_own_thread(partial(_check_begins, named, source.address))
    return f"{found}:{named}"


def _check_begins(position: Coordinates, address: SourceAddress) -> None:
    """Raise PositionWithin if no transaction begins at a position."""
    for span in Spans(address, position.file):
        if span.start == position:
            return
        if span.end.order > position.order:
            raise PositionWithin(
                f"{position} is within the transaction from {span.start} to {span.end}"
            )
    raise PositionWithin(f"no transaction begins at {position}", source=address)


def _gtid(text: str, cursor: Cursor) -> str:
    gtids = cursor.offset.gtid_set
    if gtids is None:
        raise UsageError("the source has no GTIDs; name the transaction by --file and --pos")
    try:
        gtid = parse_gtids(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if type(gtid) is not type(gtids):
        raise UsageError(f"{text} is not a GTID of this kind of server; the cursor is at {gtids}")
    if isinstance(gtid, GtidSet) and gtid.count() != 1:
        raise UsageError(f"{text} is not one GTID")
    if "," in str(gtid):
        raise UsageError(f"{text} is not one GTID")
    return str(gtid)


def _refuse_if_past(transaction: str, cursor: Cursor) -> None:
    gtids, is_past = cursor.offset.gtid_set, False
    if isinstance(gtids, GtidSet):
        is_past = transaction in gtids
    elif isinstance(gtids, MariadbGtidList):
        is_past = gtids.holds(transaction)
    else:
        server, _, position = transaction.partition(":")
        is_past = (
            server == cursor.offset.server_uuid
            and Coordinates.parse(position).order < cursor.offset.coordinates.order
        )
    if is_past:
        raise AlreadyPast(transaction, destination=cursor.destination, cursor=cursor.offset)
