"""Chunks of a real server's binlog: the same events as it sends, from any position."""

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from connectors.errors import PositionGone, SourceLost
from connectors.mysql.binlog.chunk_context import walk
from connectors.mysql.binlog.events import EventType, parse_event, payload_events
from connectors.mysql.binlog.gtid_events import parse_gtid_tagged
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import AtCoordinates, first_offset
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.replica import Bell, BinlogStream
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.integration.worker.source import address_of, end_of, facts_of
from tests.integration.worker.streams import at, chunks_to, events_of, numbered, opened, sent


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    """A MySQL of this module's own."""
    options = {"max_allowed_packet": "128M", "binlog_row_event_max_size": "8192"}
    with numbered(tmp_path_factory.mktemp("stream"), options) as server:
        yield server


def test_chunks_hold_what_the_server_sends_event_by_event(mysql: Mysql) -> None:
    begin = at(end_of(mysql))
    run(
        mysql,
        "CREATE TABLE chunks.a (id int primary key auto_increment, v longtext)",
        "INSERT INTO chunks.a (v) SELECT repeat('x', 700) FROM chunks.n",
        *["INSERT INTO chunks.a (v) VALUES ('one')"] * 50,
        "FLUSH BINARY LOGS",
        "CREATE TABLE chunks.b AS SELECT * FROM chunks.a LIMIT 30",
        "BEGIN",
        "DELETE FROM chunks.b LIMIT 3",
        "SAVEPOINT s",
        "UPDATE chunks.a, chunks.b SET a.v = 'y', b.v = 'z' WHERE a.id = b.id",
        "COMMIT",
        "FLUSH BINARY LOGS",
        "DROP TABLE chunks.a, chunks.b",
    )
    end = end_of(mysql)
    found = chunks_to(mysql, begin, end)
    assert events_of(found) == sent(mysql, begin, end)
    assert sum((Counter(chunk.passed) for chunk in found), Counter())[EventType.ROTATE] == 5
    for chunk in found:
        kinds = {event.type for event in events_of([chunk])}
        statements = [e for e in events_of([chunk]) if e.type == 2 and b"TABLE" in e.body]
        assert not statements or not kinds & {EventType.WRITE_ROWS, EventType.TABLE_MAP}


def test_a_large_transaction_comes_in_parts_that_explain_themselves(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.large (id int primary key auto_increment, v text)")
    begin = end_of(mysql)
    run(mysql, "INSERT INTO chunks.large (v) SELECT repeat('x', 8000) FROM chunks.n")
    end = end_of(mysql)
    found = chunks_to(mysql, at(begin), end)
    assert len(found) > 3
    assert events_of(found) == sent(mysql, at(begin), end)
    first = events_of(found)[:3]
    for chunk in found[1:]:
        context = [parse_event(data, checksum=False) for data in chunk.context]
        assert [event.body for event in context] == [event.body for event in first]
        assert [event.type for event in context] == [33, 2, 19]
        assert chunk.context_start == begin


def test_an_event_larger_than_a_packet_comes_whole(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.huge (id int primary key, v longtext)")
    begin = at(end_of(mysql))
    run(mysql, "INSERT INTO chunks.huge VALUES (1, repeat('abcdefgh', 5000000))")
    run(mysql, "INSERT INTO chunks.huge VALUES (2, '')")
    end = end_of(mysql)
    found = events_of(chunks_to(mysql, begin, end))
    assert [event.type for event in found] == [33, 2, 19, 30, 16] * 2
    assert found == sent(mysql, begin, end)
    assert b"abcdefgh" * 5_000_000 in found[3].body


@pytest.mark.parametrize(("rows", "large"), [(10, False), (1000, True)])
def test_a_compressed_transaction_comes_whole_or_if_large_as_its_events(
    mysql: Mysql, rows: int, large: bool
) -> None:
    name = f"chunks.compressed_{rows}"
    run(mysql, f"CREATE TABLE {name} (id int primary key auto_increment, v text)")
    begin = end_of(mysql)
    compressed = "SET binlog_transaction_compression = ON"
    insert = f"INSERT INTO {name} (v) SELECT repeat(id, 3600) FROM chunks.n LIMIT {rows}"
    run(mysql, compressed, insert, f"DELETE FROM {name} LIMIT 1")
    end = end_of(mysql)
    found = chunks_to(mysql, at(begin), end)
    first, payload, *_ = sent(mysql, at(begin), end)
    if not large:
        assert [event.type for event in events_of(found)] == [33, 40, 33, 40]
        return
    data = payload_events(payload.body)
    inner = [
        parse_event(data[begin:end], checksum=False)
        for _, begin, end in walk(data, 0, len(data), prefix=0)
    ]
    from_payload = [chunk for chunk in found if chunk.container]
    assert len(from_payload) > 3
    assert events_of(from_payload) == inner
    assert events_of(found)[0] == first
    for chunk in from_payload:
        assert chunk.container == (found[1].start, from_payload[0].container[1])  # type: ignore[index]
        assert parse_event(chunk.context[0], checksum=False).body == first.body
        assert chunk.context_start == begin
    assert [event.type for event in events_of(found[-1:])] == [33, 40]


def test_a_table_made_of_a_query_is_never_compressed(mysql: Mysql) -> None:
    """A statement that changes a table within a compressed payload is invisible to the cutter."""
    begin = at(end_of(mysql))
    create = "CREATE TABLE chunks.made SELECT * FROM chunks.n"
    run(mysql, "SET binlog_transaction_compression = ON", create)
    found = chunks_to(mysql, begin, end_of(mysql))
    assert EventType.TRANSACTION_PAYLOAD not in {event.type for event in events_of(found)}
    assert [event.type for event in events_of(found[:1])] == [33, 2, 2]


def test_events_without_checksums_are_said_to_have_none(mysql: Mysql) -> None:
    run(mysql, "SET GLOBAL binlog_checksum = NONE", "CREATE TABLE chunks.plain (id int)")
    begin = at(end_of(mysql))
    run(mysql, "INSERT INTO chunks.plain VALUES (1)", "SET GLOBAL binlog_checksum = CRC32")
    run(mysql, "INSERT INTO chunks.plain VALUES (1)")
    end = end_of(mysql)
    found = [chunk for chunk in chunks_to(mysql, begin, end) if chunk.data]
    assert [chunk.checksum for chunk in found] == [False, True]
    run(mysql, "SET GLOBAL binlog_checksum = NONE")
    try:
        found = [chunk for chunk in chunks_to(mysql, begin, end) if chunk.data]
        assert [chunk.checksum for chunk in found] == [False, True]
    finally:
        run(mysql, "SET GLOBAL binlog_checksum = CRC32")


def test_reading_resumes_after_tagged_transactions(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.tagged (id int primary key auto_increment)")
    before, begin = facts_of(mysql).gtid_executed, end_of(mysql)
    insert = "INSERT INTO chunks.tagged () VALUES ()"
    run(mysql, "SET gtid_next = 'AUTOMATIC:backup'", insert, insert)
    middle = facts_of(mysql).gtid_executed
    run(mysql, "SET gtid_next = 'AUTOMATIC:a_1'", insert, "SET gtid_next = AUTOMATIC", insert)
    after = facts_of(mysql).gtid_executed

    def read(seen: GtidSet) -> list[str]:
        found = events_of(chunks_to(mysql, at(begin, seen), end_of(mysql)))
        tagged = [parse_gtid_tagged(e.body) for e in found if e.type == EventType.GTID_TAGGED]
        return [f"{tag}:{number}" for _, tag, number, _ in tagged]

    assert read(before) == ["backup:1", "backup:2", "a_1:1"]
    assert read(middle) == ["a_1:1"]
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed, now(6)")
        text = cursor.fetchone()[0]
    assert str(GtidSet.parse(text)) == text.replace("\n", "")
    assert GtidSet.decode(after.encode()) == after
    run(mysql, "SET gtid_next = 'AUTOMATIC:backup'", insert)
    assert read(after) == ["backup:3"]


def test_a_start_by_place_counts_tagged_transactions_before_it(mysql: Mysql) -> None:
    insert = "INSERT INTO chunks.counted () VALUES ()"
    run(mysql, "CREATE TABLE chunks.counted (id int primary key auto_increment)")
    for before in ("SET @x = 1", "FLUSH BINARY LOGS"):
        run(mysql, before, "SET gtid_next = 'AUTOMATIC:counted'", insert, insert)
        middle, executed = end_of(mysql), facts_of(mysql).gtid_executed
        run(mysql, "SET gtid_next = 'AUTOMATIC:counted'", insert)
        start = first_offset(AtCoordinates(middle), facts_of(mysql), address_of(mysql))
        assert start.gtid_set == executed


def test_a_place_the_server_does_not_have_is_refused(mysql: Mysql) -> None:
    stream = opened(address_of(mysql), at(Coordinates("binlog.999999", 4)))
    with pytest.raises(PositionGone):
        next(stream.chunks(lambda: True))
    stream.close()


class Inquirer:
    """Asks for the position between transactions, from another thread."""

    def __init__(self, stream: BinlogStream) -> None:
        self._bell, self.is_wanted = Bell(), False
        self.fileno, self.noticed = self._bell.fileno, self._bell.noticed
        self._rests: queue.Queue[Coordinates] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(stream,))
        self._thread.start()

    def _read(self, stream: BinlogStream) -> None:
        with contextlib.suppress(SourceLost):
            for chunk in stream.chunks(lambda: True, interruption=self):
                if chunk.is_rest:
                    assert chunk.begins_between
                    self._rests.put(chunk.start)

    def until(self, place: Coordinates) -> Coordinates:
        """The first position that is not before one."""
        self.is_wanted = True
        self._bell.ring()
        while (found := self._rests.get(timeout=60)).order < place.order:
            pass
        self.is_wanted = False
        return found

    def join(self) -> None:
        self._thread.join(60)


def test_an_idle_stream_states_the_position_between_transactions(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.rest (id int primary key auto_increment, v longtext)")
    insert = "INSERT INTO chunks.rest (v) SELECT repeat('x', 700) FROM chunks.n"
    stream = opened(address_of(mysql, heartbeat=60.0), at(end_of(mysql)))
    asks = Inquirer(stream)
    try:
        for statements in (
            ["INSERT INTO chunks.rest (v) VALUES ('one')"],
            ["BEGIN", insert, insert, "COMMIT"],
            ["ALTER TABLE chunks.rest ADD w int"],
            ["FLUSH BINARY LOGS"],
            ["XA START 'rest'", insert, "XA END 'rest'", "XA PREPARE 'rest'", "XA COMMIT 'rest'"],
            ["SET SESSION binlog_transaction_compression = ON", insert],
            ["SET SESSION binlog_transaction_compression = ON", "BEGIN", *[insert] * 5, "COMMIT"],
        ):
            run(mysql, *statements)
            assert asks.until(end_of(mysql)) == end_of(mysql), statements
            assert asks.until(end_of(mysql)) == end_of(mysql), statements
    finally:
        stream.close()
        asks.join()
