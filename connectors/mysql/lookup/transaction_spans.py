"""Positions and commit times of a binlog's transactions, without reading their contents.

Invariant: a transaction ends where the decoders end it. Events that the decoders would refuse are
ignored, so that they cannot stop a search for a later position. Only headers, and the few events
that begin or end a transaction, are read, so that a file takes about as long as its transfer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.chunk_context import (
    GTIDS,
    MARIADB_GTID,
    QUERIES,
    begins_transaction,
    statement_of,
)
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    Event,
    EventType,
    format_has_checksum,
    parse_event,
    parse_gtid,
    parse_rotate,
)
from connectors.mysql.binlog.gtid_events import parse_gtid_tagged
from connectors.mysql.binlog.mariadb_events import parse_gtid as parse_mariadb_gtid
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.binlog.xa import verb_of
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.stream.event_actions import PASSED
from connectors.mysql.stream.packet_buffer import LOOK, RECEIVE, Packets
from connectors.mysql.stream.replica import unregistered

ALWAYS_ENDS = frozenset(
    {EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD, EventType.INCIDENT}
)
"""Events that end a transaction whatever they contain."""
_LONGEST = 1000
_USUAL = 4 * RECEIVE
_head = struct.Struct("<4xBIB4xII").unpack_from
"""A packet's first byte, which is 0 before an event; the event's time, type, size and end."""


class _Head(NamedTuple):
    """Fields of an event's header."""

    kind: int
    timestamp: int
    size: int
    end: int
    """The low 32 bits of the event's end in its file; 0 if the event is in no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A transaction's position."""

    start: Coordinates
    end: Coordinates
    gtid: str | None
    committed_ms: int
    """The latest possible commit time, milliseconds since 1970. Servers before MySQL 8.0.1 and MariaDB
    write whole seconds; their transactions get the last millisecond of the last statement's second."""


@dataclass(slots=True)
class Spans:
    """The transactions from a position of a file on, up to the current end of the binlog; can be read once."""

    address: SourceAddress
    file: str
    pos: int = FIRST_EVENT
    """A transaction's start or end, or the head of the file."""
    previous: GtidSet = field(default_factory=GtidSet)
    """The GTIDs of all earlier files, from the first file's head."""
    created: int = 0
    """The creation time of the first file, from its first event; seconds since 1970."""
    last_committed_ms: int = 0
    """The commit time of the last transaction read, as far as known; 0 before the first transaction."""
    _has_head: bool = False
    _start: Coordinates | None = None
    _gtid: str | None = None
    _has_begun: bool = False
    _packets: Packets = field(default_factory=lambda: Packets(_USUAL, checksum=False))

    def __iter__(self) -> Iterator[Span]:
        """Yield each transaction once it is whole."""
        for span in self.steps():
            if span is not None:
                yield span

    def first_ms(self) -> int | None:
        """Return the first transaction's commit time by its first event, or None without a transaction."""
        for _ in self.steps():
            if self.last_committed_ms:
                return self.last_committed_ms
        return None

    def creation_time(self) -> int:
        """The file's creation time, seconds since 1970."""
        for kind, timestamp, _, _ in self._heads():
            if kind == EventType.FORMAT_DESCRIPTION:
                return timestamp
        return 0

    def heads(self) -> Iterator[int]:
        """Yield the type of each event; the first events of the file are evaluated before they are yielded."""
        for kind, timestamp, _, _ in self._heads():
            if kind in PASSED and kind != EventType.ROTATE:
                self._pass(kind, timestamp)
            yield kind

    def steps(self) -> Iterator[Span | None]:
        """Yield a transaction at its end, and None at its start."""
        file, pos = self.file, self.pos
        latest = committed = 0
        for kind, timestamp, size, low in self._heads():
            if kind in PASSED:
                if kind == EventType.ROTATE:
                    file, pos = parse_rotate(self._event())
                else:
                    self._pass(kind, timestamp)
                continue
            if low:
                end = pos & ~0xFFFFFFFF | low
                pos = end if end >= pos else end + (1 << 32)
            if kind in GTIDS or self._start is None:
                start = Coordinates(file, pos - size if low else pos)
                if self._start is not None:
                    # No event ended the previous transaction.
                    yield self._ended(start)
                committed, latest = self._begin(kind, start), timestamp
                self.last_committed_ms = committed or latest * 1000 + 999
                yield None
            elif timestamp > latest:
                latest = timestamp
            ends = kind in ALWAYS_ENDS
            if kind in QUERIES:
                event = self._packets.event()
                ends, self._has_begun = statement_ends(event, kind, has_begun=self._has_begun)
            if ends:
                self.last_committed_ms = committed or latest * 1000 + 999
                yield self._ended(Coordinates(file, pos))

    def _heads(self) -> Iterator[_Head]:
        """Yield each event's header; the event itself is available until the next header is requested."""
        head = SourceOffset(server_uuid="", coordinates=Coordinates(self.file, self.pos))
        packets = self._packets
        with unregistered(head, self.address) as stream:
            for _ in stream.received(packets):
                yield from self._walk(packets, head.coordinates)

    def _walk(self, packets: Packets, position: Coordinates) -> Iterator[_Head]:
        """Yield the headers of all events received whole."""
        make = _Head._make
        while True:
            last, full = packets.filled - LOOK, packets.filled
            while packets.at <= last:
                status, timestamp, kind, size, low = _head(packets.buffer, packets.at)
                after = packets.at + size + LOOK - HEADER_SIZE
                if status or after > full or packets.is_odd(packets.at):
                    break
                yield make((kind, timestamp, size, low))
                packets.at = packets.begin = packets.done = after
            if not packets.is_odd(packets.at) or not packets.join(position):
                return

    def _event(self) -> Event:
        """The current event."""
        packets = self._packets
        data = bytes(packets.view[packets.at + LOOK - HEADER_SIZE : packets.after()])
        return parse_event(data, checksum=bool(packets.checksum))

    def _pass(self, kind: int, timestamp: int) -> None:
        if kind == EventType.FORMAT_DESCRIPTION:
            packets = self._packets
            data = bytes(packets.view[packets.at + LOOK - HEADER_SIZE : packets.after()])
            packets.checksum = CHECKSUM_SIZE if format_has_checksum(data) else 0
            self.created = self.created or timestamp
            # If a transaction is open, the server crashed within it, so it was never committed.
            self._start = None
        elif kind == EventType.PREVIOUS_GTIDS and not self._has_head:
            self._has_head = True
            self.previous = previous_gtids(self._event())

    def _begin(self, kind: int, start: Coordinates) -> int:
        """Begin a transaction; return its commit time in milliseconds, or 0 if the event lacks it."""
        self._start, self._gtid, self._has_begun = start, None, False
        if kind not in GTIDS:
            return 0
        event = self._event()
        if kind == MARIADB_GTID:
            parsed = parse_mariadb_gtid(event.body, event.server_id)
            self._gtid, self._has_begun = parsed.gtid, not parsed.standalone
            return 0
        if kind == EventType.GTID_TAGGED:
            self._gtid = gtid_announced(event)
            return parse_gtid_tagged(event.body)[3] // 1000
        found = parse_gtid(event)
        self._gtid = found.gtid
        return (found.committed_us or 0) // 1000

    def _ended(self, end: Coordinates) -> Span:
        assert self._start is not None
        span = Span(
            start=self._start, end=end, gtid=self._gtid, committed_ms=self.last_committed_ms
        )
        self._start = None
        return span


def statement_ends(event: bytes | memoryview, kind: int, *, has_begun: bool) -> tuple[bool, bool]:
    """Return whether a QUERY event ends its transaction, and whether a BEGIN has opened the transaction."""
    text = statement_of(event, kind)
    if begins_transaction(text):
        return False, True
    statement = text[:_LONGEST].decode("latin-1")
    what = kind_of(statement)
    if what is Kind.XA:
        return verb_of(statement) in ("COMMIT", "ROLLBACK"), has_begun
    return what in (Kind.COMMIT, Kind.ROLLBACK) or not has_begun, has_begun


def previous_gtids(event: Event) -> GtidSet:
    """The GTIDs in a PREVIOUS_GTIDS event."""
    try:
        return GtidSet.decode(event.body)
    except (ValueError, IndexError, struct.error) as error:
        raise MalformedEvent(f"a head of a file: {error}") from error


def gtid_announced(event: Event) -> str:
    """Return the GTID that a GTID or GTID_TAGGED event announces."""
    if event.type == EventType.GTID:
        return parse_gtid(event).gtid or ""
    source, tag, number, _ = parse_gtid_tagged(event.body)
    return ":".join([source, tag, str(number)] if tag else [source, str(number)])
