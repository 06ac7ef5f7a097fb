"""Where in a source's stream a schema changed, and which of two such places comes first.

The law: places compare by number, of a file and an offset in it, or by what a GTID set holds; never as strings.
Where two of them have nothing in common, the answer is "not known", and whoever asked refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql import mariadb_gtid as mariadb
from connectors.mysql.gtid import GtidSet, split_gtid
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlace:
    """Of a statement: where its event stands. Or between two transactions: then start and end are one."""

    server_uuid: str
    start: Coordinates
    end: Coordinates
    gtid: str | None = None
    """Of a statement, where the server has GTIDs."""
    gtid_set: Gtids | None = None
    """Between transactions: what came before, where the server has GTIDs."""
    ts_ms: int
    """When it was committed at its source, milliseconds since 1970."""
    server_id: int = 0
    thread: int = 0
    """The connection that executed it."""
    user: str | None = None
    """Who executed it, where the binlog tells."""

    @classmethod
    def between(cls, offset: SourceOffset, *, ts_ms: int) -> HistoryPlace:
        """The place behind a whole transaction, as a cursor has it."""
        return cls(
            server_uuid=offset.server_uuid,
            start=offset.coordinates,
            end=offset.coordinates,
            gtid_set=offset.gtid_set,
            ts_ms=ts_ms,
        )

    @property
    def offset(self) -> SourceOffset:
        """Where reading goes on behind it."""
        return SourceOffset(
            server_uuid=self.server_uuid, coordinates=self.end, gtid_set=self.gtid_set
        )

    @property
    def identity(self) -> tuple[str, str, int]:
        """Server, file, offset: what makes a statement the same one when it comes again."""
        return self.server_uuid, self.start.file, self.start.pos

    @property
    def is_statement(self) -> bool:
        """Whether something stands here, rather than between two things."""
        return self.start != self.end

    def __str__(self) -> str:
        return self.gtid or str(self.start)


@dataclass(frozen=True, slots=True)
class AtTime:
    """As it was at a time of the source's clock, milliseconds since 1970."""

    ts_ms: int


@dataclass(frozen=True, slots=True)
class AtGtid:
    """As it was right after one transaction."""

    gtid: str


Asked = HistoryPlace | SourceOffset | AtTime | AtGtid
"""What one can ask for: a statement, itself included; a source offset, with all before it; a time; a GTID."""


def reached(place: HistoryPlace, asked: Asked) -> bool | None:
    """Whether what stands at ``place`` has happened as of ``asked``; None where that cannot be known."""
    match asked:
        case AtTime():
            return place.ts_ms <= asked.ts_ms
        case AtGtid():
            return _by_gtid(place, asked.gtid)
        case SourceOffset():
            # With GTIDs the coordinates of an offset may be another server's, or only where to look.
            verdict = _by_set(place, asked.gtid_set)
            if verdict is not None:
                return verdict
            # The server has none now, or had none then.
            return _by_coordinates(place, asked.server_uuid, asked.coordinates)
        case _ if asked.server_uuid == place.server_uuid and asked.is_statement:
            return place.start.order <= asked.start.order
        case _ if asked.gtid is not None:
            return _by_gtid(place, asked.gtid)
    return reached(place, asked.offset)


def _by_coordinates(place: HistoryPlace, server_uuid: str, asked: Coordinates) -> bool | None:
    """A statement has happened where reading goes on behind its beginning."""
    if place.server_uuid != server_uuid:
        return None
    if place.is_statement:
        return place.start.order < asked.order
    return place.end.order <= asked.order


def _by_set(place: HistoryPlace, asked: Gtids | None) -> bool | None:
    if isinstance(asked, MariadbGtidList):
        return _by_list(place, asked)
    if asked is None or isinstance(place.gtid_set, MariadbGtidList):
        return None
    if place.gtid is not None:
        return place.gtid in asked
    return None if place.gtid_set is None else place.gtid_set.issubset(asked)


def _by_list(place: HistoryPlace, asked: MariadbGtidList) -> bool | None:
    if place.gtid is not None:
        return asked.holds(place.gtid)
    if isinstance(place.gtid_set, MariadbGtidList):
        return asked.holds_all(place.gtid_set)
    # Nothing at all is written alike by both makes of server, and comes before everything.
    return True if place.gtid_set is not None and not place.gtid_set else None


def _by_gtid(place: HistoryPlace, asked: str) -> bool | None:
    """A transaction has happened as of another of the same origin with the same or a higher number."""
    if place.gtid is not None:
        source, number = _split(place.gtid)
        at, last = _split(asked)
        return number <= last if source == at else None
    if isinstance(place.gtid_set, GtidSet):
        # It is behind all that it holds, so of these only the last one is not before it.
        source, last = split_gtid(asked)
        return asked not in place.gtid_set or f"{source}:{last + 1}" not in place.gtid_set
    if isinstance(place.gtid_set, MariadbGtidList):
        return MariadbGtidList.parse(asked).holds_all(place.gtid_set)
    return None


def _split(gtid: str) -> tuple[str, int]:
    """What GTIDs must share to be compared, and the number that compares them; of either make of server."""
    if ":" in gtid:
        return split_gtid(gtid)
    domain, _, sequence = mariadb.split_gtid(gtid)
    return str(domain), sequence
