"""Prepared XA transactions, whose rows wait until the transaction is committed or rolled back.

Invariant: rows that were only prepared are never emitted. The position of each prepared transaction is
kept, and its rows as long as keeping them is cheap; dropped rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from connectors.errors import PreparedRowsGone, SourceLost, UnsupportedEvent
from connectors.mysql.binlog.chunk_context import GTIDS, QUERIES, ROWS, statement_of
from connectors.mysql.binlog.events import HEADER_SIZE, EventType
from connectors.mysql.binlog.gtid_events import gtid_of, xid_announced
from connectors.mysql.binlog.undone_rows import UndoneRows
from connectors.mysql.binlog.xa import Frame, starts
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.event_actions import PASSED
from connectors.mysql.stream.transaction_payload import Payload

KEPT = 16 * 1024 * 1024
"""Maximum size of the kept rows of all prepared transactions together, in bytes."""


@dataclass(frozen=True, slots=True)
class PreparedPosition:
    """The binlog position of a prepared transaction."""

    coordinates: Coordinates
    """Coordinates of its first event."""
    gtid: str | None

    def __str__(self) -> str:
        return f"{self.coordinates} ({self.gtid})" if self.gtid else str(self.coordinates)


class PreparedTransactions:
    """The transactions prepared and not yet decided at the reader's position."""

    def __init__(self, known: Mapping[str, PreparedPosition], *, keep: int = KEPT) -> None:
        self._positions = dict(known)
        self._rows: dict[str, bytes] = {}
        self._keep = keep
        self._size = 0

    def add(self, xid: str, position: PreparedPosition, rows: bytes | None) -> None:
        """Record a prepared transaction; ``rows`` is None if they are too many to keep."""
        self.take(xid)
        self._positions[xid] = position
        if rows is None:
            return
        self._rows[xid] = rows
        self._size += len(rows)
        while self._size > self._keep:
            # The transactions that have waited longest are the likeliest to keep waiting.
            self._size -= len(self._rows.pop(next(iter(self._rows))))

    def take(self, xid: str) -> tuple[PreparedPosition | None, bytes | None]:
        """Remove a decided transaction; return its position, None if unknown, and its rows, if kept."""
        rows = self._rows.pop(xid, None)
        self._size -= len(rows or b"")
        return self._positions.pop(xid, None), rows


def rows_again(
    events: Iterable[bytes], xid: str, position: PreparedPosition, *, enough: int
) -> Iterator[bytes]:
    """Yield an XA transaction's rows from events that are read again, in pieces that end after rows.

    The events are whole and have no checksums. Raise PreparedRowsGone if the transaction is not among them.
    """
    rest = (event for event in events if event[4] not in PASSED)
    for event in rest:
        if event[4] in GTIDS and position.gtid in (None, gtid_of(event)):
            yield from _pieces(rest, xid, xid_announced(event), enough=enough)
            return
    raise PreparedRowsGone("the server does not have them any more")


def undone_of(events: Iterable[bytes], position: PreparedPosition) -> UndoneRows:
    """Return the undone rows of the transaction at a position, from events that are read again as above.

    Raise UnsupportedEvent if they cannot be known, SourceLost if the events lack the transaction's end.
    """
    found, has_begun = UndoneRows(), False
    for event in events:
        kind = event[4]
        if kind in PASSED:
            continue
        if kind in GTIDS:
            if has_begun or position.gtid not in (None, gtid_of(event)):
                break
        elif kind in ROWS:
            found.count += 1
        elif kind == EventType.XID or (
            kind in QUERIES and found.statement(statement_of(event, kind)[:1000].decode("latin-1"))
        ):
            if not found.is_known:
                raise UnsupportedEvent(
                    "a ROLLBACK TO SAVEPOINT of rows, and the binlog lacks the savepoint",
                    gtid=position.gtid,
                    coordinates=position.coordinates,
                )
            return found
        has_begun = True
    raise SourceLost(
        "a transaction and its end are not in the binlog", coordinates=position.coordinates
    )


def _pieces(rest: Iterator[bytes], xid: str, name: str | None, *, enough: int) -> Iterator[bytes]:
    """Yield the rows of the transaction announced last; ``name``: its XA name in the announcement, if any."""
    piece = bytearray()
    for event in rest:
        kind = event[4]
        if kind == EventType.TRANSACTION_PAYLOAD:
            frame = Frame()
            for inner in frame.within(
                Payload.parse(memoryview(event)[HEADER_SIZE:]).pieces(enough)
            ):
                _assert_same(xid, starts(frame.start))
                yield inner
            return
        if name is None:
            name = starts(event)
            _assert_same(xid, name)
        elif kind == EventType.XA_PREPARE:
            _assert_same(xid, name)
            if piece:
                yield bytes(piece)
            return
        else:
            piece += event
            if kind in ROWS and len(piece) >= enough:
                _assert_same(xid, name)
                yield bytes(piece)
                piece.clear()
    raise PreparedRowsGone("the binlog ends within them")


def _assert_same(wanted: str, found: str | None) -> None:
    if wanted != found:
        raise PreparedRowsGone("something else is at their position")
