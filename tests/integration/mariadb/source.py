"""What MariaDB's binlog holds of some statements, read by GTIDs or from a place in a file."""

from collections.abc import Iterator
from dataclasses import replace

from connectors.mysql.charsets import Charsets
from connectors.mysql.events import EventType, parse_query
from connectors.mysql.mariadb.events import (
    HARMLESS,
    Alter,
    MariadbEventType,
    MariadbGtid,
    parse_gtid,
    plain,
)
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.rows import ROWS_EVENTS
from connectors.mysql.statements import kind_of
from connectors.mysql.stream import BinlogStream, PlacedEvent
from connectors.mysql.table_map import TableMap, parse_table_map, table_id_of
from connectors.mysql.transactions import End, Rows, Statement, Step, Transaction
from devstack.mysql import Mysql
from tests.integration.worker.source import address_of, connected, facts_of, now, run


def end_of(mariadb: Mysql) -> Coordinates:
    """The end of the server's binlog."""
    with connected(mariadb) as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, pos, *_ = cursor.fetchone()
    return Coordinates(file, int(pos))


def written(mariadb: Mysql, *statements: str) -> list[Step]:
    """Run statements in one session and give the steps that the binlog holds of them."""
    begin = now(mariadb)
    run(mariadb, *statements)
    return steps_from(mariadb, begin)


def steps_from(mariadb: Mysql, begin: SourceOffset, *, at_most: int | None = None) -> list[Step]:
    """All steps behind an offset, up to the server's end or so many transactions."""
    found = []
    end, ends = end_of(mariadb), 0
    for step in steps(events(mariadb, begin, end), facts_of(mariadb).charsets):
        found.append(step)
        ends += isinstance(step, End)
        if ends == at_most:
            break
    return found


def events(mariadb: Mysql, begin: SourceOffset, end: Coordinates) -> Iterator[PlacedEvent]:
    """All events behind an offset up to a place."""
    if begin.gtid_set == facts_of(mariadb).gtids_at_end:
        return
    stream = BinlogStream(address_of(mariadb), begin)
    stream.open()
    try:
        for placed in stream.events():
            yield placed
            if placed.end.order >= end.order and placed.event.end_pos:
                return
    finally:
        stream.close()


def without_gtids(begin: SourceOffset) -> SourceOffset:
    """The same place by file and position."""
    return replace(begin, gtid_set=None)


def behind(begin: SourceOffset, step: End) -> SourceOffset:
    """The offset behind a transaction."""
    gtids: Gtids | None = begin.gtid_set
    if gtids is not None and step.transaction.gtid:
        gtids = gtids.copy()
        gtids.add(step.transaction.gtid)
    return replace(begin, coordinates=step.end, gtid_set=gtids)


def steps(placed: Iterator[PlacedEvent], charsets: Charsets) -> Iterator[Step]:
    """Transactions as MariaDB writes them: no BEGIN, and a lone statement ends by itself."""
    tables: dict[int, TableMap] = {}
    gtid: MariadbGtid | None = None
    transaction: Transaction | None = None
    for one in placed:
        event = plain(one.event)
        kind = event.type
        if kind == MariadbEventType.GTID:
            assert transaction is None
            gtid = parse_gtid(event.body, event.server_id)
            transaction = Transaction(
                id=gtid.gtid,
                gtid=gtid.gtid,
                start=one.start,
                committed_ms=event.timestamp * 1000,
                server_id=event.server_id,
                thread=None,
            )
        elif kind == EventType.TABLE_MAP:
            table = parse_table_map(event.body, mariadb=True)
            tables[table.table_id] = table
        elif kind in ROWS_EVENTS:
            assert transaction is not None
            yield Rows(transaction, tables[table_id_of(event.body)], kind, event.body, one.start)
        elif kind in (EventType.QUERY, EventType.XID):
            assert transaction is not None
            assert gtid is not None
            query = None if kind == EventType.XID else parse_query(event, charsets)
            if query is not None and query.sql != "COMMIT" and gtid.alter in (None, Alter.COMMIT):
                yield Statement(transaction, kind_of(query.sql), query, one.start)
            if query is None or query.sql == "COMMIT" or gtid.standalone:
                yield End(transaction, one.end)
                transaction = None
        else:
            assert kind in HARMLESS or kind in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION), (
                kind
            )
