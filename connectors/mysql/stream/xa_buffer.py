"""XA transactions within the reader: their rows are withheld until the commit.

Invariant: a transaction that is only prepared is emitted as prepared, without its rows. Its rows are
emitted just before the event that commits it, and are read again if they were not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from connectors.errors import CorruptEvent, PreparedRowsGone, UnsupportedEvent
from connectors.mysql.binlog.events import HEADER_SIZE
from connectors.mysql.binlog.gtid_events import gtid_of
from connectors.mysql.binlog.xa import Frame, parse_xa_prepare, starts, verb_of, xid_of
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.packet_buffer import Packets, packed_again, unpacked
from connectors.mysql.stream.prepared_xa import PreparedPosition, PreparedTransactions
from connectors.mysql.stream.transaction_payload import Payload

Again = Callable[[str, PreparedPosition], Iterator[bytes]]
"""Reads an XA transaction's events again, without checksums, in pieces that end after rows."""


@dataclass(slots=True)
class Open:
    """An XA transaction in progress."""

    position: PreparedPosition
    head: int
    """Bytes from its start to its first rows."""
    is_large: bool = False
    """Whether some of its rows were dropped; its rows are read again if it is committed."""


def _never(xid: str, position: PreparedPosition) -> Iterator[bytes]:
    raise PreparedRowsGone("nothing reads them again", xid=xid, prepared_at=position)


class WithheldRows:
    """Takes rows out of the packets, and puts them back in.

    A transaction begins at the end of the last whole transaction; methods act on the next event.
    """

    def __init__(
        self,
        packets: Packets,
        prepared: PreparedTransactions | None,
        again: Again | None,
        *,
        most: int,
    ) -> None:
        self._packets = packets
        self._prepared = prepared or PreparedTransactions({})
        self._again = again or _never
        self._most = most
        """Maximum size of the kept rows of one transaction, in bytes."""
        self.open: Open | None = None
        """The transaction in progress."""

    def begin(self, position: Coordinates) -> None:
        """Start an XA transaction here; ``position`` is a lower bound of the walk's position."""
        self.open = Open(self.position(position), self._packets.after() - self._packets.done)

    def end(self) -> None:
        """End the transaction in progress."""
        self.open = None

    def position(self, position: Coordinates) -> PreparedPosition:
        """Return the start of the current transaction; ``position`` is a lower bound of the walk's position."""
        packets = self._packets
        start = packets.coordinates(packets.done, position)[0]
        return PreparedPosition(start, gtid_of(packets.event_at(packets.done)))

    def drop(self) -> bool:
        """Drop the rows received so far of the transaction in progress; return whether there were any."""
        xa, packets = self.open, self._packets
        if xa is None or packets.at <= packets.done + xa.head:
            return False
        packets.take_out(packets.done + xa.head)
        xa.is_large = True
        return True

    def refuse_other_end(self, event: str) -> None:
        """Raise UnsupportedEvent if an XA transaction with dropped rows ends in an event of another kind."""
        if self.open is not None and self.open.is_large:
            raise UnsupportedEvent(f"an XA transaction that ends in {event}")

    def prepare(self) -> Iterator[bytes] | None:
        """Handle the next event, an XA_PREPARE; return missing events that must come before it."""
        xa, packets = self.open, self._packets
        xid, is_one_phase = parse_xa_prepare(packets.event()[HEADER_SIZE:])
        if xa is None:
            raise CorruptEvent(f"XA transaction {xid} is prepared, and none began")
        if is_one_phase:
            if not xa.is_large:
                return None
            self.drop()
            return self._again(xid, xa.position)
        rows = unpacked(packets.take_out(packets.done + xa.head), checksum=bool(packets.checksum))
        is_large = xa.is_large or len(rows) > self._most
        self._prepared.add(xid, xa.position, None if is_large else rows)
        return None

    def decide(self, statement: str, *, is_skipped: bool = False) -> Iterator[bytes] | None:
        """Handle the next event, XA COMMIT or XA ROLLBACK; return missing events that must come before it.

        ``is_skipped``: an operator skips the committing transaction, so no rows are needed.
        """
        xid = xid_of(statement)
        position, rows = self._prepared.take(xid)
        if is_skipped or verb_of(statement) == "ROLLBACK":
            return None
        if position is None:
            raise PreparedRowsGone("it was prepared before reading began", xid=xid)
        if rows is None:
            return self._again(xid, position)
        self._packets.put_in(packed_again(rows, checksum=bool(self._packets.checksum)))
        return None

    def keep(self, payload: Payload, position: Coordinates) -> bool:
        """Replace the next event, a payload, by its events without rows if it only prepares; return whether."""
        if starts(payload.first()) is None:
            return False
        packets, frame, rows = self._packets, Frame(), bytearray()
        packets.verify()
        for piece in frame.within(payload.pieces(self._most)):
            if len(rows) <= self._most:
                rows += piece
        xid, is_one_phase = parse_xa_prepare(frame.end[HEADER_SIZE:])
        if is_one_phase:
            return False
        kept = bytes(rows) if len(rows) <= self._most else None
        self._prepared.add(xid, self.position(position), kept)
        begin, end, checksum = packets.at, packets.low_end(), bool(packets.checksum)
        packets.at = packets.after()
        packets.take_out(begin)
        packets.put_in(packed_again(frame.start, checksum=checksum))
        last = packed_again(frame.end, checksum=checksum, end=end)
        packets.put_in(last)
        packets.at -= len(last)
        return True
