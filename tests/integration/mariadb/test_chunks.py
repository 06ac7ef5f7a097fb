"""MariaDB's binlog in chunks: the same events, cut at the boundaries of its groups."""

import pytest

from connectors.mysql.binlog.events import Event
from connectors.mysql.binlog.mariadb_events import MariadbEventType, parse_gtid
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.replica import BinlogStream
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.integration.mariadb.source import end_of, events
from tests.integration.worker.source import address_of, now
from tests.integration.worker.streams import PASSED, events_of, up_to

pytestmark = pytest.mark.stack

STATEMENTS = (
    "CREATE TABLE chunked.t (id int primary key auto_increment, v text)",
    "INSERT INTO chunked.t (v) VALUES ('one'), ('two')",
    "BEGIN",
    "INSERT INTO chunked.t (v) SELECT repeat('x', 500) FROM seq_1_to_100",
    "SAVEPOINT s",
    "DELETE FROM chunked.t LIMIT 3",
    "COMMIT",
    "CREATE TABLE chunked.m (id int) ENGINE=MyISAM",
    "INSERT INTO chunked.m VALUES (1)",
    "FLUSH BINARY LOGS",
    "CREATE OR REPLACE TABLE chunked.copy AS SELECT * FROM chunked.t",
    "INSERT INTO chunked.t (v) SELECT repeat('y', 2000) FROM seq_1_to_1000",
    "ALTER TABLE chunked.t ADD w int",
    "DROP TABLE chunked.t, chunked.m, chunked.copy",
)
PASSED_TOO = PASSED | {MariadbEventType.GTID_LIST, MariadbEventType.BINLOG_CHECKPOINT}


def again(chunks: list[Chunk]) -> list[list[Event]]:
    """The same bytes, cut wherever they may be."""
    found = []
    for chunk in chunks:
        cutter = Cutter(Coordinates("b.000001", 4), checksum=chunk.checksum, target=1)
        cutter._context.start = chunk.context_start
        at = 0
        while part := chunk.data[at : at + len(space := cutter.space())]:
            space[: len(part)] = part
            found += [events_of([one]) for one in cutter.take(len(part))]
            at += len(part)
    return found


@pytest.mark.parametrize("compress", ["OFF", "ON"])
def test_chunks_hold_what_a_mariadb_sends_event_by_event(mariadb: Mysql, compress: str) -> None:
    run(mariadb, "CREATE OR REPLACE DATABASE chunked")
    run(mariadb, f"SET GLOBAL log_bin_compress = {compress}, log_bin_compress_min_len = 10")
    begin = now(mariadb)
    run(mariadb, *STATEMENTS, database="chunked")
    run(mariadb, "SET GLOBAL log_bin_compress = OFF")
    end = end_of(mariadb)
    stream = BinlogStream(address_of(mariadb), begin)
    stream.open()
    found = up_to(stream, end)
    stream.close()
    sent = [one.event for one in events(mariadb, begin, end) if one.event.type not in PASSED_TOO]
    assert events_of(found) == sent
    for chunk in filter(lambda chunk: chunk.data, found):
        first = MariadbEventType.GTID.value
        assert bool(chunk.context) != (events_of([chunk])[0].type == first)
    groups = [held for held in again(found) if held[0].type == MariadbEventType.GTID]
    gtids = [event for event in sent if event.type == MariadbEventType.GTID]
    assert [held[0] for held in groups] == gtids
    alone = [held for held in groups if parse_gtid(held[0].body, held[0].server_id).flags & 1]
    assert len(alone) >= 4
    assert all(held[-1].type in (2, 165) for held in alone)
