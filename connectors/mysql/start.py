"""Where reading begins: at the cursor, or where the settings say.

The law: a position that the server no longer has is refused by name; "from now" is only ever chosen by the
settings, never by us.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.errors import EndPositionUnknown, PositionGone, SourceDiverged
from connectors.mysql.events import EventType
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb import start as mariadb
from connectors.mysql.mariadb.gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server import ServerFacts, SourceAddress
from connectors.mysql.spans import gtid_announced, previous_gtids
from connectors.mysql.stream import BinlogStream

FIRST_EVENT = 4
"""Where the first event of a binlog file begins, after its magic number."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest change the server still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The server's present end."""


@dataclass(frozen=True, slots=True)
class AtCoordinates:
    """A place in a file, at the border of a transaction."""

    coordinates: Coordinates


@dataclass(frozen=True, slots=True)
class AfterGtids:
    """After these transactions."""

    gtid_set: Gtids


Start = Earliest | Latest | AtCoordinates | AfterGtids


def first_offset(start: Start, facts: ServerFacts, address: SourceAddress) -> SourceOffset:
    """The offset a destination without a cursor begins at."""
    if not facts.binlogs:
        raise EndPositionUnknown("it lists no binlog files", source=address)
    if isinstance(start, Latest):
        file, size = facts.binlogs[-1]
        return _offset(facts, Coordinates(file, size), facts.gtids_at_end)
    if isinstance(start, AfterGtids):
        if not facts.has_gtids:
            raise PositionGone("the start is a GTID set, but gtid_mode is OFF", source=address)
        offset = _offset(facts, _head(facts), _in_words_of(facts, start.gtid_set))
    elif isinstance(start, AtCoordinates):
        gtids = gtids_before(start.coordinates, facts, address) if facts.has_gtids else None
        offset = _offset(facts, start.coordinates, gtids)
    else:
        offset = _offset(facts, _head(facts), facts.gtids_at_head)
    check(offset, facts, address)
    return offset


def _offset(facts: ServerFacts, coordinates: Coordinates, gtids: Gtids | None) -> SourceOffset:
    return SourceOffset(server_uuid=facts.server_uuid, coordinates=coordinates, gtid_set=gtids)


def _head(facts: ServerFacts) -> Coordinates:
    return Coordinates(facts.binlogs[0][0], FIRST_EVENT)


def check(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise PositionGone or SourceDiverged where the server cannot go on from an offset."""
    gtids = offset.gtid_set
    if gtids is not None and isinstance(gtids, MariadbGtidList) != facts.is_mariadb:
        make = "a MariaDB" if facts.is_mariadb else "not a MariaDB"
        raise SourceDiverged(f"the cursor is at {gtids}, and the server is {make}", source=address)
    if isinstance(gtids, MariadbGtidList):
        mariadb.check(gtids, facts, address)
    elif gtids is not None and facts.has_gtids:
        _check_gtids(gtids, facts, address)
    else:
        _check_coordinates(offset, facts, address)


def _check_gtids(gtid_set: GtidSet, facts: ServerFacts, address: SourceAddress) -> None:
    if not facts.gtid_purged.issubset(gtid_set):
        raise PositionGone(
            f"it has purged {facts.gtid_purged}, of which the cursor lacks some (it holds {gtid_set})",
            source=address,
        )
    if not gtid_set.issubset(facts.gtid_executed):
        raise SourceDiverged(
            f"the cursor holds {gtid_set}, the server only {facts.gtid_executed}", source=address
        )


def _check_coordinates(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    place = offset.coordinates
    if offset.server_uuid != facts.server_uuid:
        raise SourceDiverged(
            f"the cursor is of server {offset.server_uuid}, this one is {facts.server_uuid}, "
            "and without GTIDs their binlogs have nothing in common",
            source=address,
        )
    size = dict(facts.binlogs).get(place.file)
    if size is None or place.pos > size:
        held = ", ".join(f"{name} ({bytes_} bytes)" for name, bytes_ in facts.binlogs[-5:])
        raise PositionGone(f"{place} is not in its binlogs: {held}", source=address)


def as_of_now(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> SourceOffset:
    """The same place in the words the server now has: it may have gained or lost GTIDs since."""
    if facts.is_mariadb and offset.gtid_set is not None:
        return replace(offset, gtid_set=_in_words_of(facts, offset.gtid_set))
    if facts.has_gtids and offset.gtid_set is None:
        _check_coordinates(offset, facts, address)
        return replace(offset, gtid_set=gtids_before(offset.coordinates, facts, address))
    if not facts.has_gtids and offset.gtid_set is not None:
        return replace(offset, gtid_set=None)
    return offset


def _in_words_of(facts: ServerFacts, gtids: Gtids) -> Gtids:
    """The same GTIDs; nothing at all is written alike by both makes of server."""
    return MariadbGtidList() if facts.is_mariadb and not gtids else gtids


def gtids_before(coordinates: Coordinates, facts: ServerFacts, address: SourceAddress) -> Gtids:
    """All transactions before a place: what earlier files held, and those of this file up to it."""
    if facts.is_mariadb:
        return mariadb.position_at(coordinates, address)
    head = SourceOffset(
        server_uuid=facts.server_uuid, coordinates=Coordinates(coordinates.file, FIRST_EVENT)
    )
    _check_coordinates(
        SourceOffset(server_uuid=facts.server_uuid, coordinates=coordinates), facts, address
    )
    stream = BinlogStream(address, head)
    stream.open()
    found = GtidSet()
    try:
        for placed in stream.events():
            if placed.event.type == EventType.PREVIOUS_GTIDS:
                found = previous_gtids(placed.event)
            if placed.event.type in (EventType.GTID, EventType.GTID_TAGGED):
                # Only a transaction ends the search: a place before the first one still has
                # the file's PREVIOUS_GTIDS behind it.
                if placed.start.pos >= coordinates.pos:
                    break
                found.add(gtid_announced(placed.event))
            if placed.end.pos >= dict(facts.binlogs)[coordinates.file]:
                break
    finally:
        stream.close()
    return found
