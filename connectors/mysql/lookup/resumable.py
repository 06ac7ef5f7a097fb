"""Whether a server can resume from an offset: it has the position, and every transaction after it.

Invariant: a position that the server no longer has, or after which it would skip a transaction, is refused by
name.
"""

from __future__ import annotations

from connectors.errors import (
    AnonymousTransaction,
    BinlogFileMissing,
    PositionPastEnd,
    PositionPurged,
    SourceDiverged,
    SourceReset,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import mariadb_start as mariadb
from connectors.mysql.lookup.gtids_before import check_coordinates, gtids_before, previous_of
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts


def check(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise PositionGone, SourceDiverged, or a similar error, if the server cannot resume from an offset."""
    gtids = offset.gtid_set
    if gtids is not None and isinstance(gtids, MariadbGtidList) != facts.is_mariadb:
        make = "a MariaDB" if facts.is_mariadb else "not a MariaDB"
        raise SourceDiverged(f"the cursor is at {gtids}, and the server is {make}", source=address)
    if isinstance(gtids, MariadbGtidList):
        mariadb.check(gtids, facts, address)
    elif gtids is not None and facts.has_gtids:
        _check_gtids(offset, gtids, facts, address)
    else:
        check_coordinates(offset, facts, address)
    _check_index(offset, facts, address)


def _check_gtids(
    offset: SourceOffset, gtid_set: GtidSet, facts: ServerFacts, address: SourceAddress
) -> None:
    if not gtid_set.issubset(facts.gtid_executed):
        detail = (
            f"the cursor holds {gtid_set.without(facts.gtid_executed)}, which the server lacks (the cursor has "
            f"{gtid_set}, the server {facts.gtid_executed or 'none'})"
        )
        if offset.server_uuid != facts.server_uuid:
            raise SourceDiverged(detail, source=address)
        if not facts.gtid_executed.issubset(gtid_set):
            # The server continued from an earlier state: some published transactions
            # are no longer part of its history.
            raise SourceDiverged(detail, source=address)
        error = PositionPastEnd if facts.gtid_executed else SourceReset
        raise error(detail, source=address)
    if not facts.gtid_purged.issubset(gtid_set):
        raise PositionPurged(
            f"it has purged {facts.gtid_purged.without(gtid_set)}, which the cursor lacks (purged are "
            f"{facts.gtid_purged}, the cursor has {gtid_set or 'none'})",
            source=address,
        )


def _check_index(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise BinlogFileMissing if a file that is still to be read is not listed.

    The server would silently continue with the next file.
    """
    names = [name for name, _ in facts.binlogs]
    numbers = [Coordinates(name, 0).order[0] for name in names]
    gaps = [n for n in range(1, len(names)) if numbers[n] != numbers[n - 1] + 1]
    if not gaps:
        return
    after_gap = Coordinates(names[gaps[-1]], FIRST_EVENT)
    detail = f"none is between {names[gaps[-1] - 1]} and {after_gap.file}"
    gtids = offset.gtid_set
    if gtids is None:
        if offset.coordinates.order < after_gap.order:
            raise BinlogFileMissing(detail, source=address)
        return
    before = gtids_before(after_gap, facts, address)
    if isinstance(gtids, MariadbGtidList) and isinstance(before, MariadbGtidList):
        is_past = gtids.holds_all(before)
    else:
        is_past = (
            isinstance(gtids, GtidSet) and isinstance(before, GtidSet) and before.issubset(gtids)
        )
    if not is_past:
        raise BinlogFileMissing(f"{detail}, and the cursor is at {gtids}", source=address)


def refuse_skipped(
    offset: SourceOffset, gtids: GtidSet, facts: ServerFacts, address: SourceAddress
) -> None:
    """Raise AnonymousTransaction if a dump by GTIDs would skip a transaction after an offset.

    A server starts such a dump at the newest file before which all transactions are known, according to the
    file's head. The heads do not list transactions without GTIDs, so a file that contains only such
    transactions is skipped. Only files that are skipped entirely are read here: in the file in which the dump
    begins, and in all later files, the server itself refuses a transaction without a GTID.
    """
    files = [name for name, _ in facts.binlogs]
    position = offset.coordinates
    if position.file not in files:
        return
    later = files[files.index(position.file) + 1 :]
    passed = [position.file, *_known(later, gtids, address)]
    if len(passed) == 1:
        return
    for span in Spans(address, position.file):
        if span.start.file not in passed[:-1]:
            return
        if span.gtid is None and span.start.order >= position.order:
            raise AnonymousTransaction(
                f"a dump by GTIDs begins in {passed[-1]}, and passes it over",
                coordinates=span.start,
                source=address,
            )


def _known(files: list[str], gtids: GtidSet, address: SourceAddress) -> list[str]:
    """Return the leading files before which, according to their heads, all GTIDs are in a set."""
    found = []
    for file in files:
        if not previous_of(file, address).issubset(gtids):
            break
        found.append(file)
    return found
