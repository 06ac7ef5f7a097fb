"""Chunks of a real server's binlog: the same events as it sends them, from any place, over any connection."""

import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from connectors.errors import PositionGone, SourceLost
from connectors.mysql.chunk import Chunk
from connectors.mysql.context import walk
from connectors.mysql.events import Event, EventType, parse_event, payload_events
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server import SourceAddress
from connectors.mysql.start import AtCoordinates, first_offset
from connectors.mysql.stream import BinlogStream
from connectors.mysql.tagged import parse_gtid_tagged
from devstack import Stack
from devstack.mysql import Mysql
from tests.integration.worker.proxy import wire_to
from tests.integration.worker.source import address_of, connected, end_of, facts_of, run

PASSED = {3, 4, 15, 27, 35, 41}


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    """A MySQL of this module's own."""
    options = {"max_allowed_packet": "128M", "binlog_row_event_max_size": "8192"}
    with Stack(
        tmp_path_factory.mktemp("stream"), services=("mysql",), mysql_options=options
    ) as running:
        run(running.mysql, "CREATE DATABASE chunks", "CREATE TABLE chunks.n (id int primary key)")
        with connected(running.mysql) as cursor:
            cursor.executemany("INSERT INTO chunks.n VALUES (%s)", [(n,) for n in range(1000)])
        yield running.mysql
        running.mysql.kill()


def at(coordinates: Coordinates, gtids: GtidSet | None = None) -> SourceOffset:
    return SourceOffset(server_uuid="", coordinates=coordinates, gtid_set=gtids)


def opened(address: SourceAddress, offset: SourceOffset) -> BinlogStream:
    stream = BinlogStream(address, offset)
    stream.open()
    return stream


def chunks_to(
    mysql: Mysql, offset: SourceOffset, end: Coordinates, address: SourceAddress | None = None
) -> list[Chunk]:
    """Chunks from an offset up to the one that reaches a place."""
    stream = opened(address or address_of(mysql), offset)
    found = []
    try:
        for chunk in stream.chunks(lambda: True):
            found.append(chunk)
            if (placed(chunk)[-1][0]).order >= end.order:
                return found
    finally:
        stream.close()
    raise AssertionError


def placed(chunk: Chunk) -> list[tuple[Coordinates, Event]]:
    """A chunk's events, each with where it ends."""
    found, here = [], 0
    while here < len(chunk.data):
        begin = here + chunk.prefix
        here = begin + int.from_bytes(chunk.data[begin + 9 : begin + 13], "little")
        event = parse_event(chunk.data[begin:here], checksum=chunk.checksum)
        end = chunk.place[1] if chunk.place else Coordinates(chunk.start.file, event.end_pos)
        found.append((end, event))
    return found


def events_of(chunks: list[Chunk]) -> list[Event]:
    return [event for chunk in chunks for _, event in placed(chunk)]


def sent(mysql: Mysql, offset: SourceOffset, end: Coordinates) -> list[Event]:
    """The events that are no matter of the reader's, one by one."""
    stream, found = opened(address_of(mysql), offset), []
    try:
        for one in stream.events():
            if one.event.type not in PASSED:
                found.append(one.event)
            if one.end.order >= end.order:
                return found
    finally:
        stream.close()
    raise AssertionError


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
    run(mysql, "INSERT INTO chunks.large (v) SELECT repeat('x', 2000) FROM chunks.n")
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
    insert = f"INSERT INTO {name} (v) SELECT repeat(id, 900) FROM chunks.n LIMIT {rows}"
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
    from_payload = [chunk for chunk in found if chunk.place]
    assert len(from_payload) > 3
    assert events_of(from_payload) == inner
    assert events_of(found)[0] == first
    for chunk in from_payload:
        assert chunk.place == (found[1].start, from_payload[0].place[1])  # type: ignore[index]
        assert parse_event(chunk.context[0], checksum=False).body == first.body
        assert chunk.context_start == begin
    assert [event.type for event in events_of(found[-1:])] == [33, 40]


def test_a_table_made_of_a_query_is_never_compressed(mysql: Mysql) -> None:
    """A statement that changes a table within a payload would be seen by nobody who cuts."""
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
    assert [chunk.checksum for chunk in chunks_to(mysql, begin, end)] == [False, True]
    run(mysql, "SET GLOBAL binlog_checksum = NONE")
    try:
        assert [chunk.checksum for chunk in chunks_to(mysql, begin, end)] == [False, True]
    finally:
        run(mysql, "SET GLOBAL binlog_checksum = CRC32")


def test_reading_goes_on_behind_tagged_transactions(mysql: Mysql) -> None:
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


class Reading(threading.Thread):
    """A thread that reads chunks until an error ends it."""

    def __init__(self, stream: BinlogStream, room: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self.stream, self.room = stream, room
        self.found: list[Chunk] = []
        self.came = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for chunk in self.stream.chunks(self.room):
                self.found.append(chunk)
                self.came.set()
        except Exception as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(timeout=60)
        assert not self.is_alive()
        return self.error


def test_a_lone_transaction_does_not_wait_for_another(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.lone (id int primary key)")
    reading = Reading(opened(address_of(mysql), at(end_of(mysql))))
    run(mysql, "INSERT INTO chunks.lone VALUES (1)")
    assert reading.came.wait(timeout=60)
    reading.stream.close()
    assert isinstance(reading.ended(), SourceLost)


class PlainAddress(SourceAddress):
    """An address that is reached without TLS."""

    def connection_settings(self) -> dict[str, object]:
        return super().connection_settings() | {"ssl_disabled": True}


WAYS = {"plain": PlainAddress, "encrypted": SourceAddress}


def address_by(way: str, mysql: Mysql) -> SourceAddress:
    """Root's, whom the server lets in without a password over either."""
    address = address_of(mysql, user="root", password="", heartbeat=60.0)
    return WAYS[way](**{name: getattr(address, name) for name in address.__dataclass_fields__})


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_connection_brings_the_same(mysql: Mysql, way: str) -> None:
    name = f"chunks.over_{way}"
    run(mysql, f"CREATE TABLE {name} (id int primary key auto_increment, v text)")
    begin = at(end_of(mysql))
    run(mysql, f"INSERT INTO {name} (v) SELECT repeat('x', 1500) FROM chunks.n")
    run(mysql, *[f"INSERT INTO {name} (v) VALUES ('one')"] * 200)
    end = end_of(mysql)
    found = events_of(chunks_to(mysql, begin, end, address_by(way, mysql)))
    assert found == sent(mysql, begin, end)


@pytest.mark.parametrize("way", WAYS)
def test_closing_a_stream_ends_a_read_that_waits(mysql: Mysql, way: str) -> None:
    stream = opened(address_by(way, mysql), at(end_of(mysql)))
    sock = stream._connection._sock  # type: ignore[union-attr]
    assert isinstance(sock, ssl.SSLSocket) == (way == "encrypted")
    reading = Reading(stream)
    run(mysql, f"CREATE TABLE chunks.closing_{way} (id int)")
    assert reading.came.wait(timeout=60)
    stream.close()
    assert isinstance(reading.ended(), SourceLost)
    assert sock.fileno() == -1


def test_a_connection_that_falls_silent_is_lost_after_three_heartbeats(mysql: Mysql) -> None:
    with wire_to(mysql.host, mysql.port) as wire:
        address = replace(address_of(mysql, heartbeat=0.5), port=wire.port)
        reading = Reading(opened(address, at(end_of(mysql))))
        run(mysql, "CREATE TABLE chunks.silence (id int)")
        assert reading.came.wait(timeout=60)
        wire.stopped.set()
        error = reading.ended()
        assert isinstance(error, SourceLost)
        assert "nothing came for 1.5 s, three heartbeats" in str(error)
        assert f"coordinates={reading.found[-1].start.file}:" in str(error)


def test_a_server_that_only_beats_is_not_lost(mysql: Mysql) -> None:
    reading = Reading(opened(address_of(mysql, heartbeat=0.1), at(end_of(mysql))))
    beats = 0
    while beats < 6:
        reading.came.clear()
        run(
            mysql,
            "CREATE TABLE chunks.beats (id int)",
            "SELECT sleep(0.5)",
            "DROP TABLE chunks.beats",
        )
        assert reading.came.wait(timeout=60)
        beats = sum(chunk.passed.get(EventType.HEARTBEAT_V2, 0) for chunk in reading.found)
    reading.stream.close()
    reading.ended()


def test_a_server_that_goes_away_ends_the_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Stack(tmp_path_factory.mktemp("gone"), services=("mysql",)) as running:
        mysql = running.mysql
        reading = Reading(opened(address_of(mysql), at(end_of(mysql))), room=lambda: False)
        run(mysql, "CREATE DATABASE gone", "CREATE TABLE gone.t (id int)")
        run(mysql, "INSERT INTO gone.t VALUES (1)")
        mysql.stop()
        assert isinstance(reading.ended(), SourceLost)
    # What had come whole was given out first.
    assert events_of(reading.found)[-1].type == EventType.XID
