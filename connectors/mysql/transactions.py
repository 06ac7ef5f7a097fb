"""From events to transactions: where each begins and ends, and what happened in between.

The law: nothing is yielded outside a transaction, a transaction ends exactly once, and an event that is neither
understood nor known to be harmless stops the stream where it stands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    IncidentInBinlog,
    MalformedEvent,
    StatementBasedChange,
    UnsupportedEvent,
)
from connectors.mysql.charsets import Charsets
from connectors.mysql.events import (
    HARMLESS,
    Event,
    EventType,
    Query,
    parse_event,
    parse_gtid,
    parse_incident,
    parse_query,
    payload_events,
)
from connectors.mysql.position import Coordinates
from connectors.mysql.rows import ROWS_EVENTS
from connectors.mysql.statements import Kind, kind_of, words
from connectors.mysql.stream import PlacedEvent
from connectors.mysql.table_map import TableMap, parse_table_map, table_id_of

_DUMMY_TABLE_ID = 0xFFFFFF
"""A rows event for this table only says that the statement ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Who a transaction is."""

    id: str
    """Its GTID, else ``<server_uuid>:<file>:<pos>`` of its first event."""
    gtid: str | None
    start: Coordinates
    committed_ms: int
    server_id: int
    thread: int | None


@dataclass(frozen=True, slots=True)
class Rows:
    """A rows event, not yet decoded."""

    transaction: Transaction
    table_map: TableMap
    event_type: int
    body: bytes
    start: Coordinates


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is DDL or TRUNCATE."""

    transaction: Transaction
    kind: Kind
    query: Query
    start: Coordinates


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction; everything before it holds."""

    transaction: Transaction
    end: Coordinates


Step = Rows | Statement | End


class TransactionReader:
    """Folds a stream of events into steps of transactions."""

    def __init__(self, server_uuid: str, charsets: Charsets) -> None:
        self._server_uuid = server_uuid
        self._charsets = charsets
        self._announced: tuple[str | None, int | None, Coordinates] | None = None
        self._open: Transaction | None = None
        self._has_rows = False
        self._tables: dict[int, TableMap] = {}
        self._known: dict[bytes, TableMap] = {}

    def steps(self, events: Iterator[PlacedEvent]) -> Iterator[Step]:
        """The steps of each transaction, in the order of the binlog."""
        for placed in events:
            try:
                yield from self._step(placed)
            except AqueductError as error:
                error.where.setdefault("coordinates", placed.start)
                if self._open and self._open.gtid:
                    error.where.setdefault("gtid", self._open.gtid)
                raise
            except (IndexError, ValueError, KeyError, struct.error) as error:
                raise MalformedEvent(
                    f"{placed.event.type_name}: {error}", coordinates=placed.start
                ) from error

    def _step(self, placed: PlacedEvent) -> Iterator[Step]:
        event = placed.event
        kind = event.type
        if kind in ROWS_EVENTS:
            yield from self._rows(placed)
        elif kind == EventType.TABLE_MAP:
            self._map(event.body)
        elif kind == EventType.XID:
            yield self._end(placed)
        elif kind == EventType.QUERY:
            yield from self._query(placed, parse_query(event, self._charsets))
        elif kind in (EventType.GTID, EventType.ANONYMOUS_GTID):
            if self._open is not None:
                raise CorruptEvent("a transaction begins within another", gtid=self._open.gtid)
            announced = parse_gtid(event)
            self._announced = (announced.gtid, announced.committed_us, placed.start)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            for data in payload_events(event):
                inner = parse_event(data, checksum=False)
                yield from self._step(PlacedEvent(inner, placed.start, placed.end))
        elif kind in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            self._file_begins(placed)
        elif kind == EventType.INCIDENT:
            raise IncidentInBinlog(parse_incident(event))
        elif kind not in HARMLESS and (event.is_known or not event.ignorable):
            # A type that we know and do not carry is not passed by, whatever its flags say.
            raise UnsupportedEvent(f"an event of {event.type_name}")

    def _file_begins(self, placed: PlacedEvent) -> None:
        self._tables.clear()
        if self._open is not None and placed.event.end_pos:
            # The server went down in the midst of a transaction, which therefore never happened.
            raise CorruptEvent("a file ends within a transaction", gtid=self._open.gtid)

    def _map(self, body: bytes) -> None:
        table_map = self._known.get(body)
        if table_map is None:
            if len(self._known) > 10_000:
                self._known.clear()
            table_map = self._known[body] = parse_table_map(body)
        self._tables[table_map.table_id] = table_map

    def _rows(self, placed: PlacedEvent) -> Iterator[Rows]:
        table_id = table_id_of(placed.event.body)
        if table_id == _DUMMY_TABLE_ID:
            return
        transaction = self._opened(placed, thread=None)
        table_map = self._tables.get(table_id)
        if table_map is None:
            raise MalformedEvent(f"rows of table id {table_id}, which no event described")
        self._has_rows = True
        yield Rows(transaction, table_map, placed.event.type, placed.event.body, placed.start)

    def _opened(self, placed: PlacedEvent, *, thread: int | None) -> Transaction:
        if self._open is None:
            gtid, committed_us, start = self._announced or (None, None, placed.start)
            self._announced = None
            self._has_rows = False
            self._open = Transaction(
                id=gtid or f"{self._server_uuid}:{start}",
                gtid=gtid,
                start=start,
                committed_ms=committed_us // 1000
                if committed_us
                else placed.event.timestamp * 1000,
                server_id=placed.event.server_id,
                thread=thread,
            )
        return self._open

    def _end(self, placed: PlacedEvent) -> End:
        transaction = self._opened(placed, thread=None)
        self._open = None
        return End(transaction, placed.end)

    def _query(self, placed: PlacedEvent, query: Query) -> Iterator[Step]:
        kind = kind_of(query.sql)
        within = self._open is not None
        transaction = self._opened(placed, thread=query.thread)
        if kind is Kind.BEGIN:
            return
        if kind is Kind.COMMIT:
            yield self._end(placed)
            return
        self._refuse_unseen(kind, query)
        if kind in (Kind.DDL, Kind.TRUNCATE):
            yield Statement(transaction, kind, query, placed.start)
        if kind is Kind.ROLLBACK or not within:
            yield self._end(placed)

    def _refuse_unseen(self, kind: Kind, query: Query) -> None:
        if kind is Kind.CHANGE:
            raise StatementBasedChange(_short(query.sql), database=query.database)
        if kind is Kind.XA:
            raise UnsupportedEvent(
                f"an XA transaction ({_short(query.sql)})",
                remedy="This version cannot carry XA transactions; commit without XA.",
            )
        if kind is Kind.ROLLBACK and self._has_rows:
            raise UnsupportedEvent(
                "a transaction with rows that ends in ROLLBACK: some of its tables may not be "
                "transactional, and which rows stayed cannot be told"
            )
        if kind is Kind.SAVEPOINT and self._has_rows and _is_rollback_to(query.sql):
            raise UnsupportedEvent("a ROLLBACK TO SAVEPOINT after rows were written")
        if kind is Kind.UNKNOWN:
            raise UnsupportedEvent(f"the statement {_short(query.sql)}", database=query.database)


def _is_rollback_to(sql: str) -> bool:
    return words(sql, 1) == ["ROLLBACK"]


def _short(sql: str) -> str:
    """The first words of a statement; the rest may hold data, which has no place in a message."""
    return " ".join(sql.split()[:3])[:60] + " …"


__all__ = ["End", "Event", "Rows", "Statement", "Step", "Transaction", "TransactionReader"]
