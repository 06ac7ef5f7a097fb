"""All transactions before a position of a server's binlog, as GTIDs.

Invariant: a position that the binlog does not have, or that is within a transaction, is refused by name.
"""

from __future__ import annotations

from connectors.errors import (
    BinlogFileMissing,
    PositionPastEnd,
    PositionPurged,
    PositionWithin,
    SourceDiverged,
)
from connectors.mysql.binlog.events import EventType
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import mariadb_start as mariadb
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.event_actions import PASSED


def head_of(facts: ServerFacts) -> Coordinates:
    """The head of the oldest binlog file."""
    return Coordinates(facts.binlogs[0][0], FIRST_EVENT)


def check_coordinates(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise SourceDiverged or PositionGone if the server's binlog does not have the offset's coordinates."""
    position = offset.coordinates
    if offset.server_uuid != facts.server_uuid:
        raise SourceDiverged(
            f"the cursor is of server {offset.server_uuid}, this one is {facts.server_uuid}, "
            "and without GTIDs their binlogs have nothing in common",
            source=address,
        )
    size = dict(facts.binlogs).get(position.file)
    if size is not None and position.pos <= size:
        return
    held = ", ".join(f"{name} ({bytes_} bytes)" for name, bytes_ in facts.binlogs[-5:])
    detail, (last, _) = f"{position} is not in its binlogs: {held}", facts.binlogs[-1]
    is_alike = position.file.rpartition(".")[0] == last.rpartition(".")[0]
    if is_alike and position.order > Coordinates(last, 0).order:
        raise PositionPastEnd(detail, source=address)
    if is_alike and position.order < head_of(facts).order:
        raise PositionPurged(detail, source=address)
    raise BinlogFileMissing(detail, source=address)


def previous_of(file: str, address: SourceAddress) -> GtidSet:
    """Return all transactions before a MySQL binlog file, from the file's head."""
    spans = Spans(address, file)
    for kind in spans.heads():
        if kind == EventType.PREVIOUS_GTIDS or kind not in PASSED:
            break
    return spans.previous


def gtids_before(coordinates: Coordinates, facts: ServerFacts, address: SourceAddress) -> Gtids:
    """Return all transactions before a position, in earlier files and in the position's file.

    Raise PositionWithin if the position is within a transaction, also on servers without GTIDs.
    """
    offset = SourceOffset(server_uuid=facts.server_uuid, coordinates=coordinates)
    check_coordinates(offset, facts, address)
    if coordinates.pos == FIRST_EVENT and facts.has_gtids and not facts.is_mariadb:
        return previous_of(coordinates.file, address)
    found, spans = GtidSet(), Spans(address, coordinates.file)
    is_head = coordinates.pos == FIRST_EVENT
    for span in () if is_head and (facts.is_mariadb or not facts.has_gtids) else spans.steps():
        if is_head:
            break
        if span is None:
            continue
        if span.start.order >= coordinates.order:
            break
        if span.end.order > coordinates.order:
            raise PositionWithin(
                f"{coordinates} is within a transaction, from {span.start} to {span.end}",
                gtid=span.gtid,
                source=address,
            )
        if span.gtid is not None and not facts.is_mariadb:
            found.add(span.gtid)
    if facts.is_mariadb:
        return mariadb.position_at(coordinates, address)
    found.merge(spans.previous)
    return found
