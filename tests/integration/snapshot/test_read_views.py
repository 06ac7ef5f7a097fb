"""A SELECT sees all that the stream was sent, also what no other session sees yet: on each kind of server."""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connectors.errors import SourceLost, TableUnreadable
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select import chunk_reader, read_views
from connectors.mysql.select.chunk_reader import ChunkReader, ReadChunk
from devstack.mysql import Mysql
from spark_sink.jobs.load.server import owned_gtids
from tests.harness.beside import beside
from tests.harness.servers import Servers, on_demand
from tests.harness.sql import ask, connected, run
from tests.harness.wait import until
from tests.integration.snapshot.both import DATABASE, definition_of, known_facts
from tests.integration.worker.source import address_of, end_of

NEWEST, MARIADB = "9.7 without GTIDs", "mariadb-11.8"
NAMES = (NEWEST, "8.0 without GTIDs", "5.7 without GTIDs", "mariadb-10.11", MARIADB)
ROWS = 100


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with on_demand(tmp_path_factory) as server:
        yield server


def filled(server: Mysql) -> Mysql:
    """A table with a key and rows, none of which is new."""
    rows = ", ".join(f"({n}, 'old')" for n in range(ROWS))
    run(
        server,
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"DROP TABLE IF EXISTS {DATABASE}.seen",
        f"CREATE TABLE {DATABASE}.seen (id INT PRIMARY KEY, v VARCHAR(20))",
        f"INSERT INTO {DATABASE}.seen VALUES {rows}",
    )
    return server


def reader_of(server: Mysql, *, most_rows: int = 20_000, is_bounded: bool = False) -> ChunkReader:
    facts, name = known_facts(server), (DATABASE, "seen")
    known = definition_of(server, name, facts)
    return ChunkReader(
        address_of(server),
        name,
        charsets=facts.charsets,
        server=server_of(facts),
        definition=lambda: known,
        most_rows=most_rows,
        is_bounded=is_bounded,
    )


@contextlib.contextmanager
def on_their_way(server: Mysql, commit: Callable[[], object]) -> Iterator[Coordinates]:
    """The end of the binlog, with a transaction at it that no session sees yet; it does for up to a second."""
    if "mariadb" in known_facts(server).variables["version"].lower():
        # Without a replica that would confirm it.
        slow = "rpl_semi_sync_master_enabled", "ON", "OFF"
        run(
            server,
            "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
            "SET GLOBAL rpl_semi_sync_master_timeout = 1000",
        )
    else:
        slow = "binlog_group_commit_sync_delay", "1000000", "0"
    name, on, off = slow
    begin = end_of(server)
    run(server, f"SET GLOBAL {name} = {on}")
    writer = threading.Thread(target=commit)
    writer.start()
    try:
        until(lambda: end_of(server) != begin)
        yield end_of(server)
    finally:
        writer.join()
        run(server, f"SET GLOBAL {name} = {off}")


def visible(server: Mysql) -> str:
    """The value of a row that a session sees."""
    return str(ask(server, f"SELECT v FROM {DATABASE}.seen WHERE id = 50")[0][0])


UPDATE = f"UPDATE {DATABASE}.seen SET v = 'new' WHERE id = 50"


def read_on(reader: ChunkReader, chunks: list[ReadChunk], end: Coordinates) -> None:
    """Add chunks up to the last one."""
    while not chunks or not chunks[-1].is_last:
        chunk = reader.read(chunks[-1].last if chunks else None, end)
        assert chunk is not None
        assert chunk.high.order >= end.order
        chunks.append(chunk)


def values(chunks: list[ReadChunk]) -> tuple[int, int]:
    """How many of the rows that were read are old, and how many are new."""
    found = b"".join(block for chunk in chunks for block in chunk.blocks)
    return found.count(b"old"), found.count(b"new")


@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_transaction_in_the_binlog_is_seen_before_others_see_it(
    servers: Servers, name: str, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by what reads with locks, as at a server that always commits; old series need more than SELECT."""
    if is_busy and not name.startswith(("5.7", "8.0")):
        monkeypatch.setattr(read_views, "_COMMITS", ("SELECT 1",))
    server, chunks = filled(servers(name)), list[ReadChunk]()
    reader = reader_of(server)
    with on_their_way(server, lambda: run(server, UPDATE)) as end:
        assert visible(server) == "old", "it is on its way"
        read_on(reader, chunks, end)
    assert values(chunks) == (ROWS - 1, 1)
    reader.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_last_row_is_one_that_no_session_sees_yet(
    servers: Servers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction before the first position is in no change, so the reading may not end before its row."""
    monkeypatch.setattr(read_views, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(read_views, "_MOST_SECONDS", 0.01)
    server, chunks = filled(servers(name)), list[ReadChunk]()
    reader = reader_of(server, most_rows=ROWS // 4, is_bounded=True)
    newest = f"INSERT INTO {DATABASE}.seen VALUES ({ROWS}, 'new')"
    with on_their_way(server, lambda: run(server, newest)) as end:
        assert ask(server, f"SELECT max(id) FROM {DATABASE}.seen")[0] == (ROWS - 1,)
        read_on(reader, chunks, end)
    assert values(chunks) == (ROWS, 1)
    reader.close()


@pytest.mark.parametrize(
    "is_another",
    [pytest.param(False, marks=pytest.mark.long("another session commits it")), True],
)
@pytest.mark.parametrize("name", NAMES[-2:])
def test_an_xa_transaction_is_prepared_until_others_see_it(
    servers: Servers, name: str, is_another: bool
) -> None:
    """Whether the session that prepared it commits it, or another one."""
    server, chunks = filled(servers(name)), list[ReadChunk]()
    reader = reader_of(server)
    with connected(server) as cursor:
        for statement in ("XA START 'x'", UPDATE, "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        if is_another:
            own = cursor.connection.thread_id()
            cursor.connection._force_close()
            until(lambda: own not in [one[0] for one in ask(server, "SHOW PROCESSLIST")])

        def commit() -> None:
            if is_another:
                run(server, "XA COMMIT 'x'")
            else:
                cursor.execute("XA COMMIT 'x'")

        with on_their_way(server, commit) as end:
            assert (visible(server), len(ask(server, "XA RECOVER"))) == ("old", 1)
            read_on(reader, chunks, end)
    assert values(chunks) == (ROWS - 1, 1)
    reader.close()


@pytest.mark.parametrize("name", NAMES[-2:])
def test_the_position_that_mariadb_states_of_a_snapshot_is_no_proof(
    servers: Servers, name: str
) -> None:
    """Why it is not used: a new file moves it past a transaction that the snapshot does not have."""
    server = filled(servers(name))
    flushing = threading.Thread(target=run, args=(server, "FLUSH BINARY LOGS"))
    with connected(server) as cursor, on_their_way(server, lambda: run(server, UPDATE)) as end:
        flushing.start()
        until(lambda: stated(cursor).file != end.file)
        assert stated(cursor).order > end.order
        cursor.execute(f"SELECT v FROM {DATABASE}.seen WHERE id = 50")
        assert cursor.fetchall() == (("old",),)
    flushing.join()


def stated(cursor: Any) -> Coordinates:
    """Begin a snapshot, and return the position that the server states of it."""
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {name.lower(): value for name, value in cursor.fetchall()}
    return Coordinates(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))


@pytest.mark.parametrize("name", [NEWEST, MARIADB])
def test_rows_that_others_have_locked_are_read_last_and_locks_end_with_the_select(
    servers: Servers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_views, "_COMMITS", ("SELECT 1",))
    monkeypatch.setattr(read_views, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(read_views, "_MOST_SECONDS", 0.01)
    monkeypatch.setattr(chunk_reader, "VISIBLE_SECONDS", 1.0)
    server = filled(servers(name))
    reader, end = reader_of(server), end_of(server)
    with connected(server, autocommit=False) as cursor:
        cursor.execute(UPDATE)
        first = reader.read(None, end)
        assert first is not None
        assert 0 < first.rows <= 50
        assert not first.is_last
        run(server, f"UPDATE {DATABASE}.seen SET v = 'free' WHERE id < 40")
        chunks = [first]
        with pytest.raises(TableUnreadable, match=rf"had locked it.*table={DATABASE}\.seen"):
            read_on(reader, chunks, end)
        assert sum(chunk.rows for chunk in chunks) == 50
        cursor.execute("COMMIT")
    read_on(reader, chunks, end)
    assert sum(chunk.rows for chunk in chunks) == ROWS
    assert values(chunks)[1] == 1
    reader.close()


@pytest.mark.parametrize("name", [NEWEST, MARIADB])
def test_a_binlog_that_ends_before_what_was_read_from_it_was_reset(
    servers: Servers, name: str
) -> None:
    reader = reader_of(filled(servers(name)))
    with pytest.raises(SourceLost, match=r"before binlog\.000999:4, which was read from it"):
        reader.read(None, Coordinates("binlog.000999", 4))
    reader.close()


@pytest.mark.long("unit/spark_sink/jobs/load/test_server.py has what a load takes as seen")
def test_a_row_is_visible_before_its_gtid_is_executed_and_owned_until_then(
    servers: Servers,
) -> None:
    """Why what a SELECT saw is not what gtid_executed has after it: a group commits its members one by one."""
    server, source = filled(servers("9.7")), str(uuid.uuid4())
    group = 40

    def write(key: int, gtid: str) -> Callable[[threading.Event], None]:
        def written(stop: threading.Event) -> None:
            with connected(server) as cursor:
                for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(2)):
                    if gtid:
                        cursor.execute(f"SET GTID_NEXT = '{gtid}:{number}'")
                    cursor.execute(f"UPDATE {DATABASE}.seen SET v = {number} WHERE id = {key}")

        return written

    run(
        server,
        "SET GLOBAL binlog_group_commit_sync_delay = 20000",
        f"SET GLOBAL binlog_group_commit_sync_no_delay_count = {group}",
        f"UPDATE {DATABASE}.seen SET v = 1",
    )
    late = 0
    with contextlib.ExitStack() as stack:
        for key in range(group):
            stack.enter_context(beside(write(key, source if not key else "")))
        cursor = stack.enter_context(connected(server))

        def look() -> bool:
            nonlocal late
            cursor.execute(f"SELECT v FROM {DATABASE}.seen WHERE id = 0")
            seen = f"{source}:{cursor.fetchone()[0]}"
            cursor.execute("SELECT @@GLOBAL.gtid_owned")
            owned = owned_gtids(cursor.fetchone()[0])
            cursor.execute(f"SELECT GTID_SUBSET('{seen}', @@GLOBAL.gtid_executed)")
            is_late = not cursor.fetchone()[0] and not seen.endswith(":1")
            assert not is_late or seen in owned
            late += is_late
            return late >= 3

        until(look, glance=0)
    run(server, "SET GLOBAL binlog_group_commit_sync_delay = 0")
