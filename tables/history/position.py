"""Positions of schema changes in a source's stream, and their order.

Invariant: positions are compared by numbers, by file and offset, or by the contents of a GTID set,
never as strings. If two positions are not comparable, the answer is "not known", and the caller
refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql import mariadb_gtid as mariadb
from connectors.mysql.gtid import GtidSet, split_gtid
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPosition:
    """The position of a statement's event, or a position between two transactions.

    Between two transactions, start and end are equal.
    """

    server_uuid: str
    start: Coordinates
    end: Coordinates
    gtid: str | None = None
    """The GTID of a statement, if the server has GTIDs."""
    gtid_set: Gtids | None = None
    """Between transactions: all earlier GTIDs, if the server has GTIDs."""
    ts_ms: int
    """The commit time at its source, milliseconds since 1970."""
    server_id: int = 0
    thread: int = 0
    """The connection that executed it."""
    user: str | None = None
    """The user who executed it, if the binlog has the name."""

    @classmethod
    def between(cls, offset: SourceOffset, *, ts_ms: int) -> HistoryPosition:
        """The position after a whole transaction, as in a cursor."""
        return cls(
            server_uuid=offset.server_uuid,
            start=offset.coordinates,
            end=offset.coordinates,
            gtid_set=offset.gtid_set,
            ts_ms=ts_ms,
        )

    @property
    def offset(self) -> SourceOffset:
        """The offset at which reading continues after it."""
        return SourceOffset(
            server_uuid=self.server_uuid, coordinates=self.end, gtid_set=self.gtid_set
        )

    @property
    def identity(self) -> tuple[str, str, int]:
        """Server, file, offset: the identity of a statement that is read again."""
        return self.server_uuid, self.start.file, self.start.pos

    @property
    def is_statement(self) -> bool:
        """Whether it is the position of a statement, not a position between transactions."""
        return self.start != self.end

    def __str__(self) -> str:
        return self.gtid or str(self.start)


@dataclass(frozen=True, slots=True)
class AtTime:
    """The state at a time of the source's clock, milliseconds since 1970."""

    ts_ms: int


@dataclass(frozen=True, slots=True)
class AtGtid:
    """The state right after one transaction."""

    gtid: str


PositionQuery = HistoryPosition | SourceOffset | AtTime | AtGtid
"""Forms of a query: a statement, itself included; a source offset, with all before it; a time; a GTID."""


def reached(position: HistoryPosition, query: PositionQuery) -> bool | None:
    """Whether the change at ``position`` has happened as of ``query``; None if that cannot be known."""
    match query:
        case AtTime():
            return position.ts_ms <= query.ts_ms
        case AtGtid():
            return _by_gtid(position, query.gtid)
        case SourceOffset():
            # With GTIDs the coordinates of an offset may be another server's, or only a hint for
            # the search.
            verdict = _by_set(position, query.gtid_set)
            if verdict is not None:
                return verdict
            # The server has no GTIDs now, or had no GTIDs then.
            return _by_coordinates(position, query.server_uuid, query.coordinates)
        case _ if query.server_uuid == position.server_uuid and query.is_statement:
            return position.start.order <= query.start.order
        case _ if query.gtid is not None:
            return _by_gtid(position, query.gtid)
    return reached(position, query.offset)


def _by_coordinates(position: HistoryPosition, server_uuid: str, query: Coordinates) -> bool | None:
    """A statement has happened if reading continues after its beginning."""
    if position.server_uuid != server_uuid:
        return None
    if position.is_statement:
        return position.start.order < query.order
    return position.end.order <= query.order


def _by_set(position: HistoryPosition, query: Gtids | None) -> bool | None:
    if isinstance(query, MariadbGtidList):
        return _by_list(position, query)
    if query is None or isinstance(position.gtid_set, MariadbGtidList):
        return None
    if position.gtid is not None:
        return position.gtid in query
    return None if position.gtid_set is None else position.gtid_set.issubset(query)


def _by_list(position: HistoryPosition, query: MariadbGtidList) -> bool | None:
    if position.gtid is not None:
        return query.holds(position.gtid)
    if isinstance(position.gtid_set, MariadbGtidList):
        return query.holds_all(position.gtid_set)
    # The empty set is the same for both makes of server, and comes before everything.
    return True if position.gtid_set is not None and not position.gtid_set else None


def _by_gtid(position: HistoryPosition, query: str) -> bool | None:
    """A transaction has happened as of another of the same origin with the same or a higher number."""
    if position.gtid is not None:
        source, number = _split(position.gtid)
        at, last = _split(query)
        return number <= last if source == at else None
    if isinstance(position.gtid_set, GtidSet):
        # The position is after all GTIDs of its set: of these, only the last of its source reaches it.
        source, last = split_gtid(query)
        return query not in position.gtid_set or f"{source}:{last + 1}" not in position.gtid_set
    if isinstance(position.gtid_set, MariadbGtidList):
        return MariadbGtidList.parse(query).holds_all(position.gtid_set)
    return None


def _split(gtid: str) -> tuple[str, int]:
    """The part that comparable GTIDs share, and the number that orders them; for MySQL and MariaDB."""
    if ":" in gtid:
        return split_gtid(gtid)
    domain, _, sequence = mariadb.split_gtid(gtid)
    return str(domain), sequence
