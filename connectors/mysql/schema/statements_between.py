"""The statements in a server's binlog between two positions.

Invariant: all statements are returned. A server may report an end of its binlog that it does not send
yet, because transactions are written but not yet synced. So the binlog is read again until the server
has sent every transaction up to that end, or omitted it as known.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from connectors.errors import SourceLost
from connectors.mysql.binlog.chunk_context import QUERIES, QUERY_COMPRESSED
from connectors.mysql.binlog.events import EventType, Query, parse_query
from connectors.mysql.binlog.mariadb_events import uncompressed_query
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server
from connectors.mysql.ddl.parsed_statement import ParsedStatement
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.transaction_spans import gtid_announced
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset
from connectors.mysql.schema.affected_tables import parsed
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.stream.replica import unregistered

_SENT_WITHIN = 30.0
_PAUSE = 0.02
_REPORTS_SKIPPED = (5, 7)
"""Since this version, a heartbeat contains the position after transactions that are omitted because a
reader by GTIDs already has them."""
_NOWHERE = Coordinates("", 0)
_CHANGES_NO_TABLE = {
    Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.SAVEPOINT, Kind.XA, Kind.HARMLESS, Kind.TRUNCATE, Kind.CHANGE,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStatement:
    """A statement that may have changed tables or databases."""

    query: Query
    statement: ParsedStatement
    gtid: str | None
    end: Coordinates


@dataclass(slots=True, kw_only=True)
class StatementsRead:
    """The binlog read after a position."""

    begin: SourceOffset
    server: Server
    by_coordinates: bool = False
    """Whether the binlog is read by file and offset although the position has GTIDs."""
    statements: list[LoggedStatement] = field(default_factory=list)
    gtids: list[tuple[str, Coordinates]] = field(default_factory=list)
    """The GTIDs of all transactions, each with its start."""
    _reached: Coordinates = _NOWHERE

    def read_to(self, end: Coordinates, address: SourceAddress, charsets: Charsets) -> None:
        """Read up to a position that the server reported as its end; raise SourceLost if it sends less."""
        if not self._by_gtids:
            self._reached = max(self._reached, self.begin.coordinates, key=lambda one: one.order)
        deadline = time.monotonic() + _SENT_WITHIN
        while self._reached.order < end.order:
            self._read(address, charsets)
            if self._is_all(end):
                return
            if time.monotonic() > deadline:
                raise SourceLost(f"it does not send its binlog up to {end}", source=address)
            time.sleep(_PAUSE)

    def _is_all(self, end: Coordinates) -> bool:
        """Whether a server that does not report its position after omitted transactions is read completely.

        Such a server sends everything that it has written, so a transaction that it does not send is known.
        """
        skips_silently = self._by_gtids and self.server.version < _REPORTS_SKIPPED
        return skips_silently and self.begin.coordinates.order >= end.order

    @property
    def _by_gtids(self) -> bool:
        return self.begin.gtid_set is not None and not self.by_coordinates

    def up_to(self, end: Coordinates) -> list[LoggedStatement]:
        """The statements that end at or before a position."""
        return [one for one in self.statements if one.end.order <= end.order]

    def at(self, end: Coordinates) -> SourceOffset:
        """Return the offset at ``end``, with the GTIDs of all transactions before it."""
        known = self.begin.gtid_set
        if isinstance(known, GtidSet):
            known = known.copy()
            known.update(gtid for gtid, start in self.gtids if start.order < end.order)
        return replace(self.begin, coordinates=end, gtid_set=known)

    def _read(self, address: SourceAddress, charsets: Charsets) -> None:
        """Read everything that the server sends now."""
        known = self.begin.gtid_set
        if isinstance(known, GtidSet):
            known = known.copy()
            known.update(gtid for gtid, _ in self.gtids)
        gtids = known if self._by_gtids else None
        start = replace(self.begin, coordinates=self._start(known), gtid_set=gtids)
        gtid: str | None = None
        with unregistered(start, address) as stream:
            for placed in stream.events_there_are():
                event = placed.event
                if event.type in (EventType.GTID, EventType.GTID_TAGGED):
                    gtid = gtid_announced(event)
                    self.gtids.append((gtid, placed.start))
                elif event.type in QUERIES:
                    body = event.body
                    if event.type == QUERY_COMPRESSED:
                        body = uncompressed_query(body)
                    self._take(parse_query(body, charsets), gtid, placed.end)
        self._reached = max(self._reached, stream.position, key=lambda one: one.order)

    def _take(self, query: Query, gtid: str | None, end: Coordinates) -> None:
        if kind_of(query.sql) not in _CHANGES_NO_TABLE:
            statement = parsed(query, self.server)
            if not statement.changes_nothing:
                self.statements.append(
                    LoggedStatement(query=query, statement=statement, gtid=gtid, end=end)
                )

    def _start(self, known: object) -> Coordinates:
        """Return where to start; an empty name means the first file, if no transaction is known."""
        if not self._by_gtids:
            return self._reached
        return self.begin.coordinates if known else Coordinates("", FIRST_EVENT)
