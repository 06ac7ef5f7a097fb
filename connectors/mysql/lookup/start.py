"""The start position: the cursor, or the position in the settings.

Invariant: a position that the server no longer has is refused by name. Reading starts "from now"
only if the settings say so; the program never chooses this by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors.errors import (
    AnonymousTransaction,
    BinlogFileMissing,
    EndPositionUnknown,
    PositionGone,
    PositionPastEnd,
    PositionPurged,
    PositionWithin,
    SourceDiverged,
    SourceReset,
)
from connectors.mysql.binlog.chunk_context import GTIDS
from connectors.mysql.binlog.events import EventType
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import mariadb_start as mariadb
from connectors.mysql.lookup.landmark_search import is_end
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.lookup.position_within import Within
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import FIRST_EVENT, Coordinates, Gtids, SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.stream.event_actions import PASSED
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


def head_of(facts: ServerFacts) -> Coordinates:
    """The head of the oldest binlog file."""
    return Coordinates(facts.binlogs[0][0], FIRST_EVENT)


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
        _check_coordinates(offset, facts, address)
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


def _check_coordinates(offset: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
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


def in_current_terms(
    offset: SourceOffset, facts: ServerFacts, address: SourceAddress
) -> SourceOffset:
    """Return the same position in the server's current terms; it may have enabled or disabled GTIDs."""
    if facts.is_mariadb and offset.gtid_set is not None:
        return replace(offset, gtid_set=_in_words_of(facts, offset.gtid_set))
    if facts.has_gtids and offset.gtid_set is None:
        _check_coordinates(offset, facts, address)
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
    _check_coordinates(offset, facts, address)
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
