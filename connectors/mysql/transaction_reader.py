"""The reader of a chunk's events, which reports each transaction's start, contents and end.

Invariant: every reported change belongs to a transaction, a transaction ends exactly once, and an
event that is neither understood nor known to be harmless stops the stream there.
This is the hot path: a small transaction has five events and one row, so the loop creates no object
per event and reads only the bytes that it needs.
"""

from __future__ import annotations

import struct
import uuid
from zlib import crc32

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    IncidentInBinlog,
    MalformedEvent,
    UnsupportedEvent,
)
from connectors.mysql.binlog.changes import Changes, QueryTextOnly, Transaction
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    EventType,
    is_ignorable,
    load_query,
    original_us,
    parse_incident,
    parse_query,
    parse_rows_query,
    payload_events,
)
from connectors.mysql.binlog.gtid_events import (
    Announced,
    EventHeader,
    by_mariadb,
    event_bounds,
    tagged,
    without_gtid,
)
from connectors.mysql.binlog.mariadb_events import (
    HARMLESS,
    PLAIN_ROWS,
    Alter,
    MariadbEventType,
    is_known,
    parse_annotation,
    type_name,
    uncompressed_query,
)
from connectors.mysql.binlog.mariadb_events import parse_gtid as parse_mariadb_gtid
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.binlog.undone_rows import report
from connectors.mysql.binlog.xa import decides, parse_xa_prepare, xid_of
from connectors.mysql.charsets import Charsets
from connectors.mysql.landmark import Ended
from connectors.mysql.position import Coordinates
from connectors.mysql.rows.decoder import ROWS_EVENTS
from connectors.mysql.stream.chunk import Chunk

# Plain numbers: looking up an enumeration member costs more than the rest of the comparison.
_TABLE_MAP, _XID, _GTID, _QUERY = (
    int(EventType.TABLE_MAP),
    int(EventType.XID),
    int(EventType.GTID),
    int(EventType.QUERY),
)
_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD)
_MAY_END = frozenset({_PAYLOAD, int(EventType.XA_PREPARE), int(MariadbEventType.QUERY_COMPRESSED)})
_ROWS = frozenset(map(int, ROWS_EVENTS))
_DUMMY_TABLE = b"\xff\xff\xff\0\0\0"
"""A rows event for this table only marks the end of the statement."""
_CRC_OF_ALL = 0x2144DF1C
"""The CRC32 of anything that ends in its own CRC32."""
_MOST_TABLE_MAPS = 10_000

_GTID_BODY = struct.Struct("<x16sQ17xQ")
"""The UUID and number of the GTID, and, in the low 55 bits, the commit time at the event's server."""
_GTID_BODY_OLD = struct.Struct("<x16sQ")
"""Servers before 8.0.1 write no commit time."""
_TIME = (1 << 55) - 1
_QUERY_BODY = struct.Struct("<I4xBHH")
"""The thread, the length of the database's name, the error code, the length of the status variables."""
_BEGIN_SIZE = 19
"""Size of a BEGIN statement's QUERY event body, without its database and status variables."""


class TransactionReader:
    """Reads each chunk independently; between chunks, only caches and counts of events are kept."""

    def __init__(self, server_uuid: str, charsets: Charsets, *, mariadb: bool = False) -> None:
        self._server_uuid = server_uuid
        self._charsets = charsets
        self._mariadb = mariadb
        self._known: dict[bytes, TableMap] = {}
        self._sources: dict[bytes, str] = {}
        self._tables: dict[bytes, TableMap] = {}
        self._announced: Announced | None = None
        self._original_us = 0
        self._has_rows = self._has_rows_before = False
        self._is_muted = self._is_marked = False
        self.open: Transaction | None = None
        """The transaction within which the last chunk ends; None if the chunk ends between transactions."""
        self.ended: Ended | None = None
        self.seen = [0] * 256
        """The number of events by type, since the counts were last collected."""

    def read(self, chunk: Chunk, changes: Changes) -> None:
        """Report a chunk's contents to ``changes``; raise AqueductError if an event cannot be read."""
        self.open = self._announced = None
        self._tables.clear()
        self._is_marked = chunk.undone is not None
        if chunk.context:
            self._take_up(chunk, changes)
        self.ended = None
        self._read(chunk, changes)

    def _take_up(self, chunk: Chunk, changes: Changes) -> None:
        """Read the context events of a transaction that began in an earlier chunk."""
        start = chunk.context_start or chunk.start
        seen = self.seen.copy()
        data = b"".join(chunk.context)
        receiver = QueryTextOnly()
        self._read(
            Chunk(start=start, data=data, checksum=False, container=(start, start)), receiver
        )
        self.seen = seen
        self._has_rows = self._has_rows_before = self.open is not None
        if self.open is not None:
            self.open.is_settled = self._is_marked and chunk.is_settled
        if receiver.text is not None:
            changes.query(receiver.text)

    def _read(self, chunk: Chunk, changes: Changes) -> None:
        data, prefix, file, first = chunk.data, chunk.prefix, chunk.start.file, chunk.start.pos
        bounds = (
            None if chunk.container is None else (chunk.container[0].pos, chunk.container[1].pos)
        )
        tail = CHECKSUM_SIZE if chunk.checksum else 0
        smallest, length, at = HEADER_SIZE + tail, len(data), 0
        # Headers have only 32 bits of the offset. Within a transaction, MariaDB's have no offset.
        is_odd = self._mariadb or bounds is not None or first >> 32
        tables, seen, undone = self._tables, self.seen, chunk.undone
        header, view = HEADER.unpack_from, memoryview(data)
        last_map, table_id, table_map = b"", b"", None
        kind, pos, began = 0, first, -1
        try:
            while at < length:
                at += prefix
                timestamp, kind, server_id, size, end_pos, flags = header(data, at)
                body, at = at + HEADER_SIZE, at + size
                if size < smallest or at > length:
                    raise CorruptEvent(f"its header states {size} bytes, more than were received")
                if is_odd or end_pos < first:
                    pos, end_pos = bounds or event_bounds(pos, end_pos, size, self.open)
                else:
                    pos = end_pos - size
                end = at - tail
                if tail and crc32(view[body - HEADER_SIZE : at]) != _CRC_OF_ALL:
                    raise CorruptEvent("its CRC32 does not match")
                seen[kind] += 1
                if kind == _TABLE_MAP:
                    raw = data[body:end]
                    if raw != last_map:
                        last_map, table_id, table_map = raw, raw[:6], self._mapped(raw)
                        tables[table_id] = table_map
                elif undone and body - HEADER_SIZE in undone:
                    opened = self.open or self._opened(file, pos, timestamp, server_id)
                    undone_map = tables.get(data[body : body + 6])
                    if undone_map is not None:
                        changes.undone_rows(opened, undone_map, kind, data[body:end])
                elif kind in _ROWS:
                    if not data.startswith(table_id, body) or table_map is None:
                        table_id, last_map, table_map = data[body : body + 6], b"", None
                        if table_id == _DUMMY_TABLE:
                            continue
                        table_map = tables.get(table_id)
                        if table_map is None:
                            number = int.from_bytes(table_id, "little")
                            raise MalformedEvent(f"no TABLE_MAP describes table id {number}")
                    opened = self.open or self._opened(file, pos, timestamp, server_id)
                    self._has_rows = True
                    changes.rows(opened, table_map, kind, data[body:end], pos)
                elif kind == _XID:
                    opened = self.open or self._opened(file, pos, timestamp, server_id)
                    self.open = None
                    changes.end(opened, end_pos)
                    self.ended = (began, body - HEADER_SIZE, end_pos)
                elif kind == _GTID:
                    began = body - HEADER_SIZE
                    self._announce(data, body, end, pos=pos)
                elif kind == _QUERY:
                    within = self.open is not None
                    if not within and self._announced is None:
                        began = body - HEADER_SIZE
                    opened = self.open or self._opened(file, pos, timestamp, server_id)
                    opened.thread, database, _, status = _QUERY_BODY.unpack_from(data, body)
                    is_begin = end - body == _BEGIN_SIZE + database + status
                    if not (is_begin and data.startswith(b"BEGIN", end - 5)):
                        self._query(
                            data[body:end],
                            changes,
                            within=within,
                            pos=(pos, end_pos),
                            started_s=timestamp,
                        )
                        if self.open is None:
                            self.ended = (began, body - HEADER_SIZE, end_pos)
                else:
                    if self.open is None and self._announced is None:
                        began = body - HEADER_SIZE
                    if kind == _PAYLOAD and bounds is not None:
                        raise CorruptEvent("a compressed transaction within another")
                    self._rare(
                        kind,
                        data[body:end],
                        changes,
                        header=EventHeader(file, pos, end_pos, flags, timestamp, server_id),
                    )
                    if kind in _MAY_END and self.open is None:
                        self.ended = (began, body - HEADER_SIZE, end_pos)
        except AqueductError as error:
            self._add_context(error, file, pos, kind)
            raise
        except (IndexError, ValueError, KeyError, struct.error) as error:
            malformed = MalformedEvent(f"{type_name(kind)}: {type(error).__name__}: {error}")
            self._add_context(malformed, file, pos, kind)
            raise malformed from error

    def _add_context(self, error: AqueductError, file: str, pos: int, kind: int) -> None:
        error.context.setdefault("coordinates", Coordinates(file, pos))
        error.context.setdefault("event", type_name(kind))
        # The GTID or position by which an operator can skip the transaction.
        opened, announced = self.open, self._announced
        if opened is None and announced is not None:
            opened = Transaction(file, *announced, 0)
        if opened is not None and opened.gtid:
            error.context.setdefault("gtid", opened.gtid)
        elif opened is not None:
            error.context.setdefault("transaction_at", opened.start)

    def _announce(
        self, data: bytes, body: int, end: int, *, pos: int, anonymous: bool = False
    ) -> None:
        """Read a GTID event, which announces the next transaction."""
        if self.open is not None:
            self._refuse_within()
        committed = 0
        if end - body >= _GTID_BODY.size:
            raw, number, committed = _GTID_BODY.unpack_from(data, body)
        else:
            raw, number = _GTID_BODY_OLD.unpack_from(data, body)
        source = self._sources.get(raw)
        if source is None:
            source = self._sources[raw] = str(uuid.UUID(bytes=raw))
        if not (0 < number < 1 << 63 or anonymous):
            raise ValueError(f"no GTID has the number {number}")
        self._is_muted = False
        committed_ms = (committed & _TIME) // 1000
        self._announced = (pos, source, number, f"{source}:{number}", committed_ms)

    def _refuse_within(self) -> None:
        if self.open is not None:
            raise CorruptEvent("a transaction begins within another", gtid=self.open.gtid)

    def _opened(self, file: str, pos: int, timestamp: int, server_id: int) -> Transaction:
        """Open the announced transaction, or without GTIDs, the transaction that begins at this event."""
        announced = self._announced
        if announced is None:
            announced = (pos, None, 0, f"{self._server_uuid}:{file}:{pos}", 0)
        start, source, number, name, committed_ms = announced
        opened = self.open = Transaction(
            file, start, source, number, name, committed_ms or timestamp * 1000, server_id
        )
        if source is None:
            opened.original_us, self._original_us = self._original_us, 0
        opened.is_settled = self._is_marked
        self._announced = None
        self._has_rows = self._has_rows_before = False
        return opened

    def _mapped(self, raw: bytes) -> TableMap:
        table_map = self._known.get(raw)
        if table_map is None:
            if len(self._known) > _MOST_TABLE_MAPS:
                self._known.clear()
            table_map = self._known[raw] = parse_table_map(raw, mariadb=self._mariadb)
        return table_map

    def _query(
        self,
        body: bytes,
        changes: Changes,
        *,
        within: bool,
        pos: tuple[int, int],
        started_s: int,
    ) -> None:
        """Read a statement other than a plain BEGIN."""
        opened = self.open
        assert opened is not None
        query = parse_query(body, self._charsets, started_s=started_s)
        kind = kind_of(query.sql)
        if kind is Kind.BEGIN:
            return
        if kind is Kind.XA:
            if not decides(query.sql):
                return
            changes.xa(opened, xid_of(query.sql), is_prepared=False)
        elif kind is not Kind.COMMIT:
            report(kind, query, opened, changes, (self._has_rows, self._has_rows_before))
            if kind in (Kind.DDL, Kind.TRUNCATE) and not self._is_muted:
                changes.statement(opened, kind, query, pos[0])
            if kind is not Kind.ROLLBACK and within:
                return
        self.open = None
        changes.end(opened, pos[1])

    def _rare(self, kind: int, body: bytes, changes: Changes, *, header: EventHeader) -> None:
        """Read an event of a type that does not occur in MySQL's ordinary small transactions."""
        if kind == EventType.ANONYMOUS_GTID:
            self._announce(body, 0, len(body), pos=header.pos, anonymous=True)
            self._announced = without_gtid(self._announced, header, self._server_uuid)
            self._original_us = original_us(body)
        elif kind == EventType.GTID_TAGGED:
            self._refuse_within()
            self._announced, self._is_muted = tagged(body, header), False
        elif kind == EventType.TRANSACTION_PAYLOAD:
            self._payload(body, changes, header=header)
        elif kind == EventType.XA_PREPARE:
            self._prepare(body, changes, header=header)
        elif kind == EventType.ROWS_QUERY:
            changes.query(parse_rows_query(body))
        elif kind == EventType.INCIDENT:
            alone = self._announced is None and self.open is None
            raise IncidentInBinlog(
                parse_incident(body),
                ends_at=Coordinates(header.file, header.end_pos) if alone else None,
            )
        elif kind == EventType.EXECUTE_LOAD_QUERY:
            self._current(header)
            pos = (header.pos, header.end_pos)
            self._query(load_query(body), changes, within=True, pos=pos, started_s=header.timestamp)
        elif kind == MariadbEventType.GTID:
            self._announce_mariadb(body, header)
        elif kind == MariadbEventType.ANNOTATE_ROWS:
            changes.query(parse_annotation(body))
        elif kind == MariadbEventType.QUERY_COMPRESSED:
            within, _ = self.open is not None, self._current(header)
            pos = (header.pos, header.end_pos)
            self._query(
                uncompressed_query(body),
                changes,
                within=within,
                pos=pos,
                started_s=header.timestamp,
            )
        elif kind in PLAIN_ROWS:
            self._compressed_rows(kind, body, changes, header=header)
        elif kind not in HARMLESS and (is_known(kind) or not is_ignorable(header.flags)):
            # A known type that is not supported is never ignored, whatever its flags.
            raise UnsupportedEvent(f"an event of {type_name(kind)}")

    def _current(self, header: EventHeader) -> Transaction:
        return self.open or self._opened(
            header.file, header.pos, header.timestamp, header.server_id
        )

    def _announce_mariadb(self, body: bytes, header: EventHeader) -> None:
        """Read MariaDB's GTID event, which is also the BEGIN of a transaction."""
        self._refuse_within()
        announced = parse_mariadb_gtid(body, header.server_id)
        self._announced = by_mariadb(announced.gtid, header)
        # A two-phase ALTER changes the table only when it is committed.
        self._is_muted = announced.alter in (Alter.START, Alter.ROLLBACK)
        if not announced.standalone:
            self._current(header)

    def _compressed_rows(
        self, kind: int, body: bytes, changes: Changes, *, header: EventHeader
    ) -> None:
        if body[:6] == _DUMMY_TABLE:
            return
        transaction = self._current(header)
        self._has_rows = True
        changes.rows(transaction, self._tables[body[:6]], kind, body, header.pos)

    def _payload(self, body: bytes, changes: Changes, *, header: EventHeader) -> None:
        """Read the events inside a compressed transaction."""
        start, end = (
            Coordinates(header.file, header.pos),
            Coordinates(header.file, header.end_pos),
        )
        data = payload_events(body)
        is_marked, self._is_marked = self._is_marked, False
        self._read(Chunk(start=start, data=data, checksum=False, container=(start, end)), changes)
        self._is_marked = is_marked

    def _prepare(self, body: bytes, changes: Changes, *, header: EventHeader) -> None:
        """Read the end of an XA transaction: its XA PREPARE, or its XA COMMIT ... ONE PHASE."""
        transaction = self._current(header)
        xid, is_one_phase = parse_xa_prepare(body)
        if not is_one_phase:
            if self._has_rows:
                raise MalformedEvent("rows that are only prepared were given out")
            changes.xa(transaction, xid, is_prepared=True)
        self.open = None
        changes.end(transaction, header.end_pos)
