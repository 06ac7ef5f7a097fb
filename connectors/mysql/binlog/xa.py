"""XA transactions in the binlog: their names, and the events around their rows.

A prepared XA transaction is logged as a transaction: XA START, rows, XA END, an XA_PREPARE event. A
later transaction, which contains only XA COMMIT or XA ROLLBACK, decides its outcome. If an XA
transaction commits in one phase, the XA_PREPARE event itself states this.
Source: sql/xa.cc, XID::serialize; libs/mysql/binlog/event/control_events.h, XA_prepare_event.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from connectors.errors import CorruptEvent, MalformedEvent, UnsupportedEvent
from connectors.mysql.binlog.chunk_context import QUERIES, statement_of, walk
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.statement_kind import words

_XID = re.compile(r"X'([0-9A-Fa-f]*)',X'([0-9A-Fa-f]*)',([0-9]+)")
_PREPARE = struct.Struct("<BIII")
_LONGEST = 1000
"""Largest size of an XA statement, in bytes."""


def xid_of(statement: str) -> str:
    """Return the name of the XA transaction in an XA statement of the binlog, in normal form."""
    found = _XID.search(statement)
    if found is None:
        raise MalformedEvent("an XA statement without a name")
    return _named(bytes.fromhex(found[1]), bytes.fromhex(found[2]), int(found[3]))


def _named(transaction: bytes, branch: bytes, number: int) -> str:
    # An event contains 32 bits of the format number, a statement all of its bits.
    return f"X'{transaction.hex()}',X'{branch.hex()}',{number & 0xFFFFFFFF}"


def verb_of(statement: str) -> str:
    """An XA statement's verb: START, END, COMMIT, ROLLBACK; empty for another statement."""
    first, *rest = words(statement, 2) or [""]
    return rest[0] if first == "XA" and rest else ""


def decides(statement: str) -> bool:
    """Whether an XA statement commits or rolls back a prepared transaction."""
    verb = verb_of(statement)
    if verb not in ("START", "BEGIN", "END", "COMMIT", "ROLLBACK"):
        raise UnsupportedEvent(f"the statement XA {verb}")
    return verb in ("COMMIT", "ROLLBACK")


def starts(event: bytes | memoryview) -> str | None:
    """The name of the transaction that an event begins with XA START; None for other events."""
    if not event or event[4] not in QUERIES:
        return None
    statement = statement_of(event, event[4])[:_LONGEST].decode("latin-1")
    return xid_of(statement) if verb_of(statement) in ("START", "BEGIN") else None


def parse_xa_prepare(body: bytes | memoryview) -> tuple[str, bool]:
    """The name in an XA_PREPARE event, and whether it is an XA COMMIT ... ONE PHASE."""
    one_phase, number, size, branch_size = _PREPARE.unpack_from(body)
    data = bytes(body[_PREPARE.size : _PREPARE.size + size + branch_size])
    if len(data) != size + branch_size:
        raise IndexError(f"an XA_PREPARE event names {size + branch_size} bytes, {len(data)} came")
    return _named(data[:size], data[size:], number), bool(one_phase)


class Frame:
    """The events around the rows of an XA transaction in a payload."""

    def __init__(self) -> None:
        self.start = b""
        """The XA START event."""
        self._end = b""

    def within(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the events between XA START and XA_PREPARE, in pieces like the payload's."""
        for piece in pieces:
            begin, end = 0, len(piece)
            for kind, at, after in walk(piece, 0, end, 0):
                if kind == EventType.XA_PREPARE:
                    self._end, end = piece[at:after], at
                elif not self.start:
                    self.start, begin = piece[at:after], after
            if end > begin:
                yield piece[begin:end]

    @property
    def end(self) -> bytes:
        """The XA_PREPARE event; raise CorruptEvent if there was none."""
        if not self._end:
            raise CorruptEvent("a payload begins with XA START and has no XA_PREPARE")
        return self._end
