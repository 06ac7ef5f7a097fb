"""The part of the binlog that a trial reads: from a position up to the present end, or for some seconds.

Invariant: the position is between two transactions, and the server still has everything after it; nothing is
guessed. The running worker's connection is never ended. A trial up to the end is not a replica, and has no
server_id. A trial that follows the binlog is a replica with a server_id and a UUID that no other replica has.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.errors import SourceLost
from connectors.mysql.lookup.binlog_end import BinlogEnd, read_clock_and_end
from connectors.mysql.lookup.landmark_search import LARGEST
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    AtTime,
    Latest,
    Start,
    first_offset,
    in_current_terms,
    position_after,
)
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.dump_command import UNREGISTERED_ID
from connectors.mysql.stream.prepared_xa import PreparedPosition
from connectors.mysql.stream.replica import BinlogStream
from tables.state.cursor import Cursor

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class AtCursor:
    """The destination's cursor."""


@dataclass(frozen=True, slots=True)
class LastTransactions:
    """The last ``count`` transactions of the binlog, or all if the binlog has fewer."""

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
    """Whether the position is requested by file and offset, not by GTIDs."""
    prepared: Mapping[str, PreparedPosition] = field(default_factory=dict)
    """XA transactions that were prepared before the position, as far as known."""


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
    """Return a position that was recorded on this server or, with GTIDs, on another server."""
    check(offset, facts, address)
    return _after_gtids_elsewhere(offset, facts, address) or offset_as_read(offset, facts)


def _after_gtids_elsewhere(
    offset: SourceOffset, facts: ServerFacts, address: SourceAddress
) -> TrialOffset | None:
    """Return a position of another server, by its GTIDs; None for a position of this one, or without GTIDs."""
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
    """Return where the last transactions begin; the files are read from the last file backward."""
    first, wanted = None, count
    for file, _ in reversed(facts.binlogs):
        # Where the last transactions of this file begin, the last of them last.
        found: deque[Coordinates] = deque(maxlen=wanted)
        for span in Spans(address, file):
            if span.start.file != file:
                break
            found.append(span.start)
        first = found[0] if found else first
        wanted -= len(found)
        if not wanted:
            break
    return Latest() if first is None else AtCoordinates(first)


_CHUNK = 256 * 1024
"""Bytes of a chunk. Memory holds both mappings' records of one chunk, and small rows grow a hundredfold."""
_OWN_IDS = range(1 << 31, 1 << 32)
"""Server ids that a replica configured by hand is unlikely to have."""


def trial_chunks(
    address: SourceAddress, start: TrialOffset, seconds: float | None = None
) -> Iterator[Chunk]:
    """Yield the chunks in order. Raise SourceLost or SourceRefused; nothing reconnects.

    ``seconds`` is the time after which reading ends; None: reading ends at the present end of the binlog.
    """
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    stream = BinlogStream(
        address,
        start.offset,
        prepared=start.prepared,
        aim=lambda: _CHUNK,
        by_coordinates=start.by_coordinates,
    )
    # A silent source sends nothing that could end the loop below.
    timer = threading.Timer(seconds or 0.0, stream.close)
    timer.daemon = True
    try:
        stream.open()
        if seconds is not None:
            timer.start()
        for chunk in stream.chunks(lambda: True):
            yield chunk
            if time.monotonic() >= deadline:
                return
    except SourceLost:
        # A server that shuts down ends the stream too, so the caller compares the positions.
        is_end = seconds is None and stream.has_sent_all
        if not is_end and time.monotonic() < deadline:
            raise
    finally:
        timer.cancel()
        stream.close()


def refuse_early_end(reached: SourceOffset, facts: ServerFacts, address: SourceAddress) -> None:
    """Raise SourceLost if a server ended its stream before the end that its binlog had in ``facts``."""
    end = BinlogEnd(server_uuid=facts.server_uuid, binlogs=facts.binlogs, gtids=facts.gtids_at_end)
    if end.is_past(reached):
        raise SourceLost(
            f"it ended the stream at {reached.coordinates}, before the end of its binlog",
            source=address,
        )


def own_address(
    address: SourceAddress, facts: ServerFacts, others: Iterable[int], *, follows: bool
) -> SourceAddress:
    """Return the address with the identity of a trial; ``others`` are server ids of this installation."""
    if not follows:
        return replace(address, server_id=UNREGISTERED_ID, replica_uuid="")
    taken = {one.server_id for one in facts.replicas} | {*others, _id_of(facts)}
    number = next(one for one in iter(_random_id, None) if one not in taken)
    return replace(address, server_id=number, replica_uuid=str(uuid.uuid4()))


def _random_id() -> int:
    return secrets.choice(_OWN_IDS)


def _id_of(facts: ServerFacts) -> int:
    return int(facts.variables.get("server_id") or 0)
