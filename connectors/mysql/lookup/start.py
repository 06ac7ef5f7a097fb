"""The start position: the cursor, or the position in the settings.

Invariant: a position that the server no longer has is refused by name. Reading starts "from now"
only if the settings say so; the program never chooses this by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.errors import AnonymousTransaction, EndPositionUnknown, PositionGone
from connectors.mysql.binlog.chunk_context import GTIDS
from connectors.mysql.binlog.events import EventType
from connectors.mysql.lookup.gtids_before import (
    check_coordinates,
    gtids_before,
    head_of,
    previous_of,
)
from connectors.mysql.lookup.landmark_search import is_end
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.lookup.position_within import Within
from connectors.mysql.lookup.resumable import check
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.replica import unregistered


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest change the server still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The current end of the server's binlog."""


@dataclass(frozen=True, slots=True)
class AtCoordinates:
    """A position in a file, between transactions."""

    coordinates: Coordinates


@dataclass(frozen=True, slots=True)
class AfterEvent:
    """The position after an event, which may be within a transaction."""

    coordinates: Coordinates
    """The start of the event."""


@dataclass(frozen=True, slots=True)
class AfterGtids:
    """The position after these transactions."""

    gtid_set: Gtids
    within: Within | None = None
    """The part of the next transaction that another program has published."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first transaction committed at a moment or later."""

    ts_ms: int
    """Milliseconds since 1970, UTC."""
    file: str | None = None
    """The only file searched; if it has no such transaction, reading starts at its head."""


Start = Earliest | Latest | AtCoordinates | AfterEvent | AfterGtids | AtTime


def first_offset(start: Start, facts: ServerFacts, address: SourceAddress) -> SourceOffset:
    """The start offset of a destination without a cursor."""
    if not facts.binlogs:
        raise EndPositionUnknown("it lists no binlog files", source=address)
    if isinstance(start, Latest):
        file, size = facts.binlogs[-1]
        return _offset(facts, Coordinates(file, size), facts.gtids_at_end)
    if isinstance(start, AfterGtids):
        if not facts.has_gtids:
            raise PositionGone(
                "the start is a GTID set, but gtid_mode is OFF",
                source=address,
                remedy="Give start as file and pos, or as a timestamp; or turn gtid_mode on.",
            )
        offset = _offset(facts, head_of(facts), _in_words_of(facts, start.gtid_set))
    elif isinstance(start, AtCoordinates | AfterEvent):
        before = gtids_before(start.coordinates, facts, address)
        offset = _offset(facts, start.coordinates, before if facts.has_gtids else None)
    elif isinstance(start, AtTime):
        offset = offset_at_time(start.ts_ms, facts, address, file=start.file)
    else:
        offset = _offset(facts, head_of(facts), facts.gtids_at_head)
    check(offset, facts, address)
    return offset


def _offset(facts: ServerFacts, coordinates: Coordinates, gtids: Gtids | None) -> SourceOffset:
    return SourceOffset(server_uuid=facts.server_uuid, coordinates=coordinates, gtid_set=gtids)


def in_current_terms(
    offset: SourceOffset, facts: ServerFacts, address: SourceAddress
) -> SourceOffset:
    """Return the same position in the server's current terms; it may have enabled or disabled GTIDs."""
    if facts.is_mariadb and offset.gtid_set is not None:
        return replace(offset, gtid_set=_in_words_of(facts, offset.gtid_set))
    if facts.has_gtids and offset.gtid_set is None:
        check_coordinates(offset, facts, address)
        try:
            return replace(offset, gtid_set=gtids_before(offset.coordinates, facts, address))
        except AnonymousTransaction:
            return _in_next_file(offset, facts, address)
    if not facts.has_gtids and offset.gtid_set is not None:
        return replace(offset, gtid_set=None)
    return offset


def _in_next_file(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> SourceOffset:
    """Return the head of the next file, for the end of a file that has transactions without GTIDs."""
    position, files = offset.coordinates, [name for name, _ in facts.binlogs]
    later = files[files.index(position.file) + 1 :]
    if not later or not is_end(position, address):
        raise AnonymousTransaction(
            f"it has more of them after {position}", source=address, coordinates=position
        )
    head = Coordinates(later[0], FIRST_EVENT)
    return replace(offset, coordinates=head, gtid_set=previous_of(head.file, address))


def _in_words_of(facts: ServerFacts, gtids: Gtids) -> Gtids:
    """Return the same GTIDs, in MariaDB's form if they are empty: empty text is parsed as MySQL's set."""
    return MariadbGtidList() if facts.is_mariadb and not gtids else gtids


def position_after(gtids: Gtids, facts: ServerFacts, address: SourceAddress) -> Coordinates:
    """Return the position of the first transaction that is not in a GTID set, or the binlog's end without any.

    The server itself finds it, as it does for a replica. Raise PositionGone if the server has purged
    transactions outside the set.
    """
    if not facts.binlogs:
        raise EndPositionUnknown("it lists no binlog files", source=address)
    if not gtids:
        return Coordinates(facts.binlogs[0][0], FIRST_EVENT)
    # The server reported this end before the dump was requested, so no transaction in between is missed.
    end = Coordinates(*facts.binlogs[-1])
    begin = SourceOffset(server_uuid=facts.server_uuid, coordinates=end, gtid_set=gtids)
    with unregistered(begin, address) as stream:
        for placed in stream.events_there_are():
            # MariaDB's incidents have no GTID; no reader may begin after an incident that is not reported.
            if placed.event.type in GTIDS or placed.event.type == EventType.INCIDENT:
                return placed.start
    return end
