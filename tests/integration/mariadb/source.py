"""MariaDB's binlog events of some statements, read by GTIDs or from a position in a file."""

from collections.abc import Iterator
from dataclasses import replace

from connectors.mysql.lookup.start import in_current_terms
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.stream.replica import BinlogStream, PositionedEvent
from connectors.mysql.transaction_reader import TransactionReader
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.integration.worker.source import address_of, facts_of
from tests.steps import End, Step, steps_of


def end_of(mariadb: Mysql) -> Coordinates:
    """The end of the server's binlog."""
    with connected(mariadb) as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, pos, *_ = cursor.fetchone()
    return Coordinates(file, int(pos))


def position_of(mariadb: Mysql) -> SourceOffset:
    """The same with its GTIDs."""
    with connected(mariadb) as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        gtids = MariadbGtidList.parse(cursor.fetchone()[0])
    return SourceOffset(server_uuid="", coordinates=end_of(mariadb), gtid_set=gtids)


def written(mariadb: Mysql, *statements: str) -> list[Step]:
    """Run statements in one session and give the steps that the binlog holds of them."""
    begin = position_of(mariadb)
    run(mariadb, *statements)
    return steps_from(mariadb, begin)


def steps_from(
    mariadb: Mysql, begin: SourceOffset, *, at_most: int | None = None, statements: bool = False
) -> list[Step]:
    """All steps after an offset, up to the server's end or a number of transactions."""
    facts, address = facts_of(mariadb), address_of(mariadb, statements=statements)
    reached, found, ends = in_current_terms(begin, facts, address), list[Step](), 0
    if reached.gtid_set == facts.gtids_at_end:
        return found
    stream = BinlogStream(address, begin)
    stream.open()
    reader = TransactionReader(facts.server_uuid, facts.charsets, mariadb=True)
    try:
        for step in steps_of(stream.chunks(lambda: True), reader):
            found.append(step)
            if isinstance(step, End):
                ends, reached = ends + 1, past(reached, step)
                if ends == at_most or reached.gtid_set == facts.gtids_at_end:
                    break
    finally:
        stream.close()
    return found


def events(mariadb: Mysql, begin: SourceOffset, end: Coordinates) -> Iterator[PositionedEvent]:
    """All events after an offset, up to a position."""
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
    """The same position by file and offset."""
    return replace(begin, gtid_set=None)


def past(begin: SourceOffset, step: End) -> SourceOffset:
    """The offset after a transaction."""
    gtids: Gtids | None = begin.gtid_set
    if gtids is not None and step.transaction.gtid:
        gtids = gtids.copy()
        gtids.add(step.transaction.gtid)
    return replace(begin, coordinates=step.end, gtid_set=gtids)
