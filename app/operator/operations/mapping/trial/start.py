"""The position at which a trial begins to read the binlog.

Invariant: it is between two transactions, and the server still has all after it; nothing is guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.mysql.lookup.binlog_end import read_clock_and_end
from connectors.mysql.lookup.landmark_search import LARGEST
from connectors.mysql.lookup.position_after_gtids import position_after
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    AtTime,
    Latest,
    Start,
    check,
    first_offset,
    in_current_terms,
)
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.state.cursor import Cursor

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class AtCursor:
    """The destination's cursor."""


@dataclass(frozen=True, slots=True)
class LastTransactions:
    """The last transactions of the binlog, or all if it has fewer."""

    count: int


@dataclass(frozen=True, slots=True)
class LastMinutes:
    """The transactions of the last minutes by the server's clock."""

    minutes: float


TrialStart = AtCursor | LastTransactions | LastMinutes | Start


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOffset:
    """A position to read from, and how it is requested."""

    offset: SourceOffset
    by_coordinates: bool
    """Whether it is requested by file and offset, not by GTIDs."""
    prepared: Mapping[str, PreparedPosition] = field(default_factory=dict)
    """XA transactions that were prepared before it, as far as known."""


def trial_offset(
    start: TrialStart, cursor: Cursor, facts: ServerFacts, address: SourceAddress
) -> TrialOffset:
    """Return the position; raise PositionGone, PositionPurged or a similar error if the server lacks it."""
    if isinstance(start, AtCursor):
        return _at_cursor(cursor, facts, address)
    if isinstance(start, AfterGtids):
        return _after_gtids(start.gtid_set, facts, address)
    if isinstance(start, LastTransactions):
        start = _last_transactions(start.count, facts, address)
    elif isinstance(start, LastMinutes):
        now_ms, _ = read_clock_and_end(address)
        start = AtTime(now_ms - round(start.minutes * _MINUTE_MS))
    return offset_as_read(first_offset(start, facts, address), facts)


def offset_as_read(offset: SourceOffset, facts: ServerFacts) -> TrialOffset:
    """Return a position of this server's own binlog, which file and offset locate exactly."""
    by_coordinates = not facts.is_mariadb and offset.coordinates.pos <= LARGEST
    return TrialOffset(offset=offset, by_coordinates=by_coordinates)


def recorded_offset(
    offset: SourceOffset, facts: ServerFacts, address: SourceAddress
) -> TrialOffset:
    """Return a position that was recorded on this server, or, with GTIDs, on another one."""
    check(offset, facts, address)
    return _after_gtids_elsewhere(offset, facts, address) or offset_as_read(offset, facts)


def _after_gtids_elsewhere(
    offset: SourceOffset, facts: ServerFacts, address: SourceAddress
) -> TrialOffset | None:
    """Return a position of another server, by its GTIDs; None for one of this server."""
    if offset.server_uuid == facts.server_uuid or offset.gtid_set is None:
        return None
    return _after_gtids(offset.gtid_set, facts, address)


def _at_cursor(cursor: Cursor, facts: ServerFacts, address: SourceAddress) -> TrialOffset:
    offset = in_current_terms(cursor.offset, facts, address)
    check(offset, facts, address)
    # File and offset are those of the server that the worker reads.
    if found := _after_gtids_elsewhere(offset, facts, address):
        return found
    verification = CursorVerification(
        destination=cursor.destination, facts=facts, address=address, accepts_unproven=True
    )
    return TrialOffset(
        offset=offset,
        by_coordinates=verification.reads_by_coordinates(offset, cursor.proof),
        prepared=cursor.prepared,
    )


def _after_gtids(gtids: Gtids, facts: ServerFacts, address: SourceAddress) -> TrialOffset:
    offset = first_offset(AfterGtids(gtids), facts, address)
    begin = position_after(gtids, facts, address)
    return TrialOffset(offset=replace(offset, coordinates=begin), by_coordinates=False)


def _last_transactions(count: int, facts: ServerFacts, address: SourceAddress) -> Start:
    """Return where the last transactions begin; the files are read from the last one back."""
    first, wanted = None, count
    for file, _ in reversed(facts.binlogs):
        found = _starts(file, wanted, address)
        first = found[0] if found else first
        wanted -= len(found)
        if not wanted:
            break
    return Latest() if first is None else AtCoordinates(first)


def _starts(file: str, most: int, address: SourceAddress) -> deque[Coordinates]:
    """Return where the last transactions of one file begin."""
    found: deque[Coordinates] = deque(maxlen=most)
    for span in Spans(address, file):
        if span.start.file != file:
            break
        found.append(span.start)
    return found
