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
from tests.integration.mariadb.source import end_of, events, written
from tests.integration.worker.source import address_of, decoded, now
from tests.integration.worker.streams import PASSED, events_of, up_to
from tests.steps import End

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


@pytest.mark.parametrize("compress", ["OFF", "ON"])
def test_rows_that_were_undone_are_reported_of_no_transaction_however_large(
    mariadb: Mysql, compress: str
) -> None:
    run(mariadb, "CREATE OR REPLACE DATABASE undone")
    run(mariadb, f"SET GLOBAL log_bin_compress = {compress}, log_bin_compress_min_len = 10")

    def many(first: int, count: int = 3000) -> str:
        # Far more than a chunk, also if it is compressed.
        text = "CONCAT(SHA2(seq, 512), SHA2(-seq, 512), SHA2(seq / 7, 512), SHA2(seq / 3, 512))"
        return f"INSERT INTO t SELECT seq, {text} FROM seq_{first}_to_{first + count - 1}"

    # With what cannot be undone, a server writes the rows that were.
    forced = "DROP TEMPORARY TABLE IF EXISTS nothing"
    steps = written(
        mariadb,
        "USE undone",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        *("BEGIN", many(10_000), forced, "ROLLBACK"),
        *("BEGIN", many(20_000), "SAVEPOINT a", many(30_000), "SAVEPOINT b", many(40_000)),
        *(forced, "ROLLBACK TO b", many(50_000, 2), "ROLLBACK TO a", many(60_000, 2), "COMMIT"),
        *("BEGIN", many(70_000), forced, "COMMIT"),
        *("BEGIN", many(80_000, 2), "SAVEPOINT a", many(80_002, 2), forced, "ROLLBACK TO a"),
        *(many(80_004, 1), "COMMIT"),
        "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        *("BEGIN", many(90_000, 2), 'SAVEPOINT "a b"', many(90_002, 2), 'SAVEPOINT "a c"'),
        *(many(90_004, 2), forced, 'ROLLBACK TO "a b"', "COMMIT"),
    )
    run(mariadb, "SET GLOBAL log_bin_compress = OFF")
    found = [row.after()["id"] for row in decoded(mariadb, steps)]
    wanted = [*range(20_000, 23_000), 60_000, 60_001, *range(70_000, 73_000)]
    assert found == [*wanted, 80_000, 80_001, 80_004, 90_000, 90_001]
    assert len([step for step in steps if isinstance(step, End)]) == 6
