"""Landmarks on a server: whether a landmark still exists, and which landmark precedes a position.

Invariant: the server is only queried, over connections that register no replica. An answer that could come
from another binlog than the binlog that was read does not count as found. Events as SHOW BINLOG EVENTS lists
them are used only to show that no transaction is after a position, or that a known event exists: a server
with gtid_mode=ON refuses to send a file that has transactions without GTIDs, and still lists its events,
without times and contents.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import (
    AnonymousTransaction,
    BinlogFileMissing,
    CorruptEvent,
    MalformedEvent,
    PositionGone,
    PositionWithin,
    SourceRefused,
)
from connectors.mysql.binlog.chunk_context import GTIDS
from connectors.mysql.binlog.events import Event
from connectors.mysql.gtid import GtidSet
from connectors.mysql.landmark import Landmark, Mark
from connectors.mysql.lookup.binlog_retention import created_at
from connectors.mysql.lookup.transaction_spans import Span, Spans
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts, gtids_but
from connectors.mysql.stream.event_actions import PASSED
from connectors.mysql.stream.replica import unregistered

_OF_NO_TRANSACTION = {"Rotate", "Stop", "Format_desc", "Previous_gtids"}
_FEW = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """An event: its type by the server's name, and its start and end in its file."""

    kind: str
    pos: int
    end: int


def listed(position: Coordinates, address: SourceAddress, *, most: int = _FEW) -> list[Listed]:
    """List up to ``most`` events of a file from a position; raise SourceRefused if none begins there."""
    with connected(address) as cursor:
        cursor.execute(
            f"SHOW BINLOG EVENTS IN %s FROM %s LIMIT {most:d}", (position.file, position.pos)
        )
        return [Listed(str(row[2]), int(row[1]), int(row[4])) for row in cursor.fetchall()]


def is_end(position: Coordinates, address: SourceAddress) -> bool:
    """Whether no transaction is after a position in its file."""
    return all(one.kind in _OF_NO_TRANSACTION for one in listed(position, address))


LARGEST = 0xFFFFFFFF
"""Largest offset from which a server sends a binlog, except by GTIDs."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of looking for a landmark."""

    is_there: bool
    is_purged: bool = False
    """Whether its file is older than all files of the server, or the transaction cannot be read."""
    detail: str = ""
    """What was found instead."""


def find_landmark(landmark: Landmark, facts: ServerFacts, address: SourceAddress) -> Found:
    """Return whether a server still has a landmark's transaction, at the same position with the same bytes."""
    sizes = dict(facts.binlogs)
    for position in (landmark.start, landmark.end):
        size = sizes.get(position.file)
        if size is None:
            return _unlisted(landmark, position, facts, address)
        if not size:
            raise BinlogFileMissing(
                f"{position.file}: it is in the index, and is missing",
                source=address,
                coordinates=position,
            )
        if position.pos > size:
            return Found(False, detail=f"{position.file} has only {size} bytes")
    if landmark.end.pos > LARGEST:
        return _by_gtid(landmark, facts, address)
    try:
        return _compared(landmark, address)
    except AnonymousTransaction:
        return _as_listed(landmark, address)


def _unlisted(
    landmark: Landmark, position: Coordinates, facts: ServerFacts, address: SourceAddress
) -> Found:
    """Return the result for a file that was purged, deleted, lost by a reset, or renamed."""
    detail = f"it has no file {position.file}"
    oldest, newest = (Coordinates(facts.binlogs[at][0], 0) for at in (0, -1))
    if not _is_alike(position.file, newest.file):
        return _by_gtid(landmark, facts, address)
    if position.order < oldest.order:
        return Found(False, is_purged=True, detail=detail)
    if position.order[0] < newest.order[0]:
        raise BinlogFileMissing(detail, source=address, coordinates=position)
    return Found(False, detail=detail)


def _compared(landmark: Landmark, address: SourceAddress) -> Found:
    """Compare the bytes of the first and last event."""
    marks = ((landmark.start, landmark.first), (_last(landmark), landmark.last))
    for position, mark in marks:
        if mark is None:
            continue
        event = event_at(position, address)
        if event is None:
            return Found(False, detail=f"no event begins at {position}")
        found = Mark.of(event)
        if found != mark:
            return Found(
                False,
                detail=f"the transaction at {position} is another one (written at {found.timestamp}, not at "
                f"{mark.timestamp}, seconds since 1970)",
            )
    return Found(True)


def _as_listed(landmark: Landmark, address: SourceAddress) -> Found:
    """Compare the events' positions and the file's creation time.

    A server with gtid_mode=ON does not send a transaction without a GTID, so its bytes are not compared.
    """
    detail = f"no transaction from {landmark.start} to {landmark.end}"
    written = landmark.first.timestamp if landmark.first is not None else 0
    if int(created_at(address, landmark.start.file)) > written:
        return Found(False, detail=f"{detail}: {landmark.start.file} was begun later")
    try:
        first = listed(landmark.start, address, most=1)
        last = listed(_last(landmark), address, most=1) if landmark.last is not None else first
    except SourceRefused:
        return Found(False, detail=detail)
    if not first or first[0].kind != "Anonymous_Gtid":
        return Found(False, detail=detail)
    if landmark.last is not None and [one.end for one in last] != [landmark.end.pos & LARGEST]:
        return Found(False, detail=detail)
    return Found(True)


def _last(landmark: Landmark) -> Coordinates:
    return Coordinates(landmark.end.file, landmark.last_pos)


def _is_alike(one: str, other: str) -> bool:
    return one.rpartition(".")[0] == other.rpartition(".")[0]


def _by_gtid(landmark: Landmark, facts: ServerFacts, address: SourceAddress) -> Found:
    """Compare the transaction by its GTID, the only way to read it past 4 GiB or in a renamed file."""
    detail = f"{landmark} cannot be examined"
    if facts.is_mariadb or landmark.gtid is None or landmark.first is None:
        return Found(False, is_purged=True, detail=detail)
    try:
        event = first_event_of(landmark.gtid, address)
    except PositionGone:
        return Found(False, is_purged=True, detail=detail)
    if event is None:
        return Found(False, detail=f"{landmark.gtid} is not in its binlog")
    if Mark.of(event) != landmark.first:
        return Found(False, detail=f"{landmark.gtid} is another transaction there")
    return Found(True)


def event_at(position: Coordinates, address: SourceAddress) -> Event | None:
    """Return the event that begins at a position; None if no event begins there."""
    offset = SourceOffset(server_uuid="", coordinates=position)
    with unregistered(offset, address) as stream:
        try:
            for placed in stream.events_there_are():
                if placed.event.type not in PASSED:
                    return placed.event if placed.start == position else None
        except (SourceRefused, PositionGone, CorruptEvent, MalformedEvent):
            # The server reads from any offset, and refuses bytes there that are not an event.
            return None
    return None


def first_event_of(gtid: str, address: SourceAddress) -> Event | None:
    """Return the event that announces a MySQL transaction, anywhere in the binlog; None if it is absent."""
    known = gtids_but(gtid, address)
    begin = SourceOffset(server_uuid="", coordinates=Coordinates("", 4), gtid_set=known)
    with unregistered(begin, address) as stream:
        for placed in stream.events_there_are():
            if placed.event.type in GTIDS:
                return placed.event
    return None


@dataclass(frozen=True, slots=True)
class PrecedingTransactions:
    """The transactions of a file before a position, and the file's creation time in seconds since 1970."""

    gtids: GtidSet
    """MySQL's GTIDs before the position, all earlier files included; empty for MariaDB."""
    landmark: Landmark | None
    created: int


def transactions_before(position: Coordinates, address: SourceAddress) -> PrecedingTransactions:
    """Read a file's headers up to a position; raise PositionWithin if it is within a transaction."""
    spans, within = Spans(address, position.file), GtidSet()
    last: Span | None = None
    for span in spans.steps():
        if span is None:
            continue
        if span.start.order >= position.order:
            break
        if span.end.order > position.order:
            raise PositionWithin(
                f"{position} is within a transaction, from {span.start} to {span.end}",
                gtid=span.gtid,
                source=address,
            )
        last = span
        if span.gtid is not None and span.gtid.count("-") == _DASHES_OF_UUID:
            within.add(span.gtid)
    within.merge(spans.previous)
    created = spans.created or spans.creation_time()
    return PrecedingTransactions(
        within, _landmark(last, address) if last is not None else None, created
    )


_DASHES_OF_UUID = 4


def _landmark(span: Span, address: SourceAddress) -> Landmark | None:
    """Return a landmark with only the transaction's first event; a running reader adds the last event."""
    if span.end.pos > LARGEST:
        return None
    event = event_at(span.start, address)
    if event is None:
        return None
    return Landmark(gtid=span.gtid, start=span.start, end=span.end, first=Mark.of(event), last=None)
