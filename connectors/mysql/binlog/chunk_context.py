"""The context of a chunk that begins within a transaction: first events, statement and live table maps.

Invariant: the context is collected from the emitted events only when a cut falls within a
transaction, so small transactions cost nothing. A table map is valid until a rows event marks the
end of its statement.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from connectors.errors import CorruptEvent
from connectors.mysql.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, EventType
from connectors.mysql.binlog.statement_kind import Kind, kind_of, words
from connectors.mysql.position import Coordinates

MARIADB_ANNOTATION, MARIADB_GTID, QUERY_COMPRESSED = 160, 162, 165
GTIDS = frozenset(
    {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED.value, MARIADB_GTID}
)
"""Events that announce a transaction."""
ROWS = frozenset({20, 21, 22, 23, 24, 25, 30, 31, 32, 39, *range(166, 172)})
"""All events with rows: MySQL's, MariaDB's compressed ones, and those of old servers."""
STATEMENTS = frozenset({EventType.ROWS_QUERY.value, MARIADB_ANNOTATION})
"""Events with the text of the statement whose rows follow."""
QUERIES = frozenset({EventType.QUERY.value, QUERY_COMPRESSED})

_TYPE_AND_SIZE = struct.Struct("<4xB4xI").unpack_from
_QUERY = struct.Struct("<8xB2xH").unpack_from
_QUERY_HEAD = 13
_STATEMENT_ENDS = 1
_LONGEST_TEXT = 1 << 20


def walk(
    data: bytes | memoryview, at: int, end: int, prefix: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the type, the start (after the prefix) and the end of each event between two offsets."""
    while at < end:
        kind, size = _TYPE_AND_SIZE(data, at + prefix)
        begin = at + prefix
        at = begin + max(size, HEADER_SIZE)
        yield kind, begin, at


def rows_end(data: memoryview, at: int, end: int, *, prefix: int, enough: int) -> int | None:
    """Return the first end of a rows event at or past ``enough``, else the last; None without rows events."""
    found = None
    for kind, _, after in walk(data, at, end, prefix):
        if kind in ROWS:
            found = after
            if after >= enough:
                break
    return found


def statement_of(event: bytes | memoryview, kind: int) -> bytes:
    """Return the text of a whole QUERY event without checksum; of a compressed event, the text's beginning."""
    database, status = _QUERY(event, HEADER_SIZE)
    text = bytes(event[HEADER_SIZE + _QUERY_HEAD + status + database + 1 :])
    if kind == QUERY_COMPRESSED:
        # A byte with the size of the length, the length, a zlib stream. Source: MariaDB's log_event.cc,
        # query_event_uncompress.
        try:
            text = zlib.decompressobj().decompress(text[1 + (text[0] & 7) :], _LONGEST_TEXT)
        except zlib.error as error:
            raise CorruptEvent(f"a compressed statement cannot be read: {error}") from error
    return text


def begins_transaction(text: bytes) -> bool:
    """Whether a statement opens a transaction that later events continue."""
    if text == b"BEGIN":
        return True
    statement = text[:1000].decode("latin-1")
    kind = kind_of(statement)
    return kind is Kind.BEGIN or (
        kind is Kind.XA and words(statement, 2)[1:] in (["START"], ["BEGIN"])
    )


class Context:
    """The events needed to read the rest of an open transaction."""

    def __init__(self) -> None:
        self.start: Coordinates | None = None
        """Coordinates of the transaction's first event; None between transactions."""
        self._head: list[bytes] = []
        self._maps: dict[bytes, bytes] = {}
        self._statement: list[bytes] = []

    @property
    def events(self) -> tuple[bytes, ...]:
        """The events that the next chunk carries."""
        return (*self._head, *self._statement, *self._maps.values())

    def clear(self) -> None:
        """Forget the transaction, which has ended."""
        self.start = None
        self._head.clear()
        self._maps.clear()
        self._statement.clear()

    def add(self, data: bytes, *, prefix: int, checksum: bool) -> None:
        """Add the next events of the transaction."""
        for kind, at, after in walk(data, 0, len(data), prefix):
            if kind in ROWS:
                if data[at + HEADER_SIZE + 6] & _STATEMENT_ENDS:
                    self._maps.clear()
                    self._statement.clear()
            elif kind == EventType.TABLE_MAP:
                table = data[at + HEADER_SIZE : at + HEADER_SIZE + 6]
                self._maps[table] = _bare(data[at:after], checksum)
            elif kind in STATEMENTS:
                self._statement = [_bare(data[at:after], checksum)]
            elif kind in GTIDS:
                self._head.append(_bare(data[at:after], checksum))
            elif kind in QUERIES:
                event = _bare(data[at:after], checksum)
                if begins_transaction(statement_of(event, kind)):
                    self._head.append(event)


def verified(event: bytes, *, checksum: bool) -> bytes:
    """Return an event without its checksum; raise CorruptEvent if the checksum does not match."""
    end = len(event) - CHECKSUM_SIZE
    if checksum and zlib.crc32(event[:end]) != int.from_bytes(event[end:], "little"):
        raise CorruptEvent("its CRC32 does not match")
    return _bare(event, checksum)


def _bare(event: bytes, checksum: bool) -> bytes:
    """Return an event without its checksum, and with the size in its header reduced accordingly."""
    if not checksum:
        return event
    size = len(event) - CHECKSUM_SIZE
    return event[:9] + size.to_bytes(4, "little") + event[13:size]
