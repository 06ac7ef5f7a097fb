"""Operator skips: the removal of single transactions from the stream, independently of their contents.

Invariant: only the GTID, start and end of a skipped transaction are passed on, so that the cursor
moves past the transaction and none of its changes is published. Its contents are not read, decoded
or verified, so even an undecodable transaction can be skipped. If its last event belongs to an XA
transaction, this event is passed on, because other transactions depend on it.
"""

from __future__ import annotations

import struct
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from connectors.mysql.binlog.chunk_context import (
    GTIDS,
    MARIADB_GTID,
    QUERIES,
    statement_of,
    walk,
)
from connectors.mysql.binlog.events import CHECKSUM_SIZE, HEADER, HEADER_SIZE, EventType
from connectors.mysql.binlog.gtid_events import gtid_of
from connectors.mysql.binlog.mariadb_events import parse_gtid as parse_mariadb_gtid
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.gtid import split_gtid
from connectors.mysql.lookup.transaction_spans import ALWAYS_ENDS, statement_ends
from connectors.mysql.mariadb_gtid import split_gtid as split_mariadb_gtid
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.event_actions import PASSED

Effect = TypeVar("Effect")
"""A statement's effect on tables, found by the schema tracker; not interpreted here."""
_XID = HEADER.pack(0, EventType.XID, 0, HEADER_SIZE + 8, 0, 0) + bytes(8)
"""An event that ends a transaction and has no other content."""
_LOW = 0xFFFFFFFF


@dataclass(slots=True)
class SkippedTransaction:
    """A skipped transaction."""

    id: str
    start: Coordinates
    end: Coordinates
    events: Counter[int] = field(default_factory=Counter)
    """The number of its unread events by type."""


@dataclass(slots=True)
class _Open(Generic[Effect]):
    """The transaction being skipped."""

    omitted: SkippedTransaction
    head: bytes
    """The event that announces it; empty if its first event does not announce it."""
    has_begun: bool
    effect: Effect | None = None


class TransactionSkipper(Generic[Effect]):
    """Removes transactions from chunks; ``wanted`` are their GTIDs, or ``server_uuid:file:pos``.

    The chunk that replaces a skipped statement keeps the statement's effect.
    """

    def __init__(self, wanted: frozenset[str], server_uuid: str) -> None:
        self.done: list[SkippedTransaction] = []
        """Transactions skipped so far; the publisher reads this after their ends."""
        self._wanted = set(wanted)
        self._server_uuid = server_uuid
        self._open: _Open[Effect] | None = None
        self._passed: dict[int, int] = {}

    def wants(self, gtid: str | None, start: Coordinates) -> bool:
        """Whether the transaction that begins at ``start`` is to be skipped."""
        return self._named(gtid, start) in self._wanted

    def parts(self, chunk: Chunk, effect: Effect | None) -> Iterator[tuple[Chunk, Effect | None]]:
        """Yield a chunk unchanged, or its parts without skipped transactions, and what replaces these.

        ``effect``: the effect of the statement at the chunk's end.
        """
        if chunk.created or not self._concerns(chunk):
            yield chunk, effect
            return
        for kind, count in chunk.passed.items():
            self._passed[kind] = self._passed.get(kind, 0) + count
        for part, own in self._cut(chunk, effect):
            part.passed, self._passed = self._passed, {}
            yield part, own

    def _concerns(self, chunk: Chunk) -> bool:
        return self._open is not None or any(_may_hold(chunk, one) for one in self._wanted)

    def _cut(self, chunk: Chunk, effect: Effect | None) -> Iterator[tuple[Chunk, Effect | None]]:
        data, prefix = chunk.data, chunk.prefix
        begin = 0
        has_begun = is_within = bool(chunk.context)
        start, pos = chunk.start, chunk.start
        for kind, at, after in walk(data, 0, len(data), prefix):
            if kind in PASSED:
                continue
            event_start, pos = _event_bounds(chunk, data, at, pos)
            event = _bare(data[at:after], chunk.checksum)
            if kind in GTIDS or not (is_within or self._open):
                if self._open is not None:
                    yield self._ended(event_start, b"")
                    begin, start = at - prefix, event_start
                is_within, has_begun = True, _is_begin(event)
                name = self._name(event, event_start)
                if name in self._wanted:
                    self._wanted.discard(name)
                    if at - prefix > begin:
                        yield _part(chunk, begin, at - prefix, start), None
                    omitted = SkippedTransaction(name, event_start, pos)
                    head = event if kind in GTIDS else b""
                    self._open = _Open(omitted, head, has_begun)
            if self._open is None:
                if kind in ALWAYS_ENDS:
                    is_within = False
                elif kind in QUERIES:
                    ends, has_begun = statement_ends(event, kind, has_begun=has_begun)
                    is_within = not ends
                continue
            opened = self._open
            opened.omitted.events[kind] += kind not in GTIDS
            ends = kind in ALWAYS_ENDS
            if kind in QUERIES:
                ends, opened.has_begun = statement_ends(event, kind, has_begun=opened.has_begun)
            if effect is not None and after == len(data):
                opened.effect = effect
            if ends:
                yield self._ended(pos if chunk.container is None else chunk.container[1], event)
                begin, start, is_within = after, pos, False
        if self._open is None and begin < len(data):
            yield _part(chunk, begin, len(data), start), effect

    def _ended(self, end: Coordinates, event: bytes) -> tuple[Chunk, Effect | None]:
        """Return the chunk that replaces the skipped transaction, and the skipped statement's effect."""
        opened = self._open
        assert opened is not None
        omitted, self._open = opened.omitted, None
        omitted.end = end
        self.done.append(omitted)
        data = opened.head + (event if _decides(event) else _XID)
        chunk = Chunk(
            start=omitted.start,
            data=data,
            checksum=False,
            container=(omitted.start, end),
            ends_in_statement=opened.effect is not None,
        )
        return chunk, opened.effect

    def _name(self, event: bytes, start: Coordinates) -> str:
        return self._named(gtid_of(event), start)

    def _named(self, gtid: str | None, start: Coordinates) -> str:
        return gtid or f"{self._server_uuid}:{start}"


def skipped_up_to(done: list[SkippedTransaction], reached: Coordinates) -> list[SkippedTransaction]:
    """The transactions that end at or before a position."""
    return [one for one in done if one.end.order <= reached.order]


def _part(chunk: Chunk, begin: int, end: int, start: Coordinates) -> Chunk:
    is_first, is_last = begin == 0, end == len(chunk.data)
    undone = chunk.undone
    if undone:
        undone = frozenset(at - begin for at in undone if begin <= at < end)
    return replace(
        chunk,
        start=chunk.start if is_first else start,
        data=chunk.data[begin:end],
        context=chunk.context if is_first else (),
        context_start=chunk.context_start if is_first else None,
        undone=undone,
        ends_in_statement=chunk.ends_in_statement and is_last,
    )


def _event_bounds(
    chunk: Chunk, data: bytes, at: int, last: Coordinates
) -> tuple[Coordinates, Coordinates]:
    """Return the start and end of an event; if it has no position, both are the last event's end."""
    if chunk.container is not None:
        return chunk.container
    size, low = struct.unpack_from("<II", data, at + 9)
    if not low:
        return last, last
    end = last.pos & ~_LOW | low
    if end < last.pos:
        end += _LOW + 1
    return Coordinates(last.file, end - size), Coordinates(last.file, end)


def _bare(event: bytes, checksum: bool) -> bytes:
    """An event without its checksum."""
    if not checksum:
        return event
    size = len(event) - CHECKSUM_SIZE
    return event[:9] + size.to_bytes(4, "little") + event[13:size]


def _is_begin(event: bytes) -> bool:
    """Whether an event opens a transaction that a later event ends."""
    if event[4] != MARIADB_GTID:
        return False
    server = HEADER.unpack_from(event)[2]
    return not parse_mariadb_gtid(event[HEADER_SIZE:], server).standalone


def _decides(event: bytes) -> bool:
    """Whether a transaction's last event belongs to an XA transaction."""
    if not event:
        return False
    if event[4] == EventType.XA_PREPARE:
        return True
    if event[4] not in QUERIES:
        return False
    return kind_of(statement_of(event, event[4])[:1000].decode("latin-1")) is Kind.XA


def _may_hold(chunk: Chunk, name: str) -> bool:
    """Whether the transaction may begin in a chunk, by a quick check."""
    if name.count("-") == 2:
        domain, _, sequence = split_mariadb_gtid(name)
        return struct.pack("<QI", sequence, domain) in chunk.data
    source, number = split_gtid(name)
    if len(source) == 36:
        return uuid.UUID(source).bytes + number.to_bytes(8, "little") in chunk.data
    # The name is a GTID with a tag, which is encoded differently, or a position.
    file = source.rpartition(":")[2]
    here = chunk.start
    return "." not in file or (
        file == here.file and here.pos <= number < here.pos + max(len(chunk.data), 1)
    )
