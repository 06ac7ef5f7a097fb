"""XA transactions on a real server: their rows come with what commits them, however and whenever that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from connectors.errors import PreparedRowsGone
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import TARGET
from connectors.mysql.stream.prepared_xa import PreparedPosition
from connectors.mysql.stream.replica import BinlogStream
from connectors.mysql.transaction_reader import TransactionReader
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import GTIDS_OFF, own_mysql
from tests.harness.sql import connected, run
from tests.integration.worker.source import address_of, end_of, facts_of, now
from tests.steps import End, Recorded, Rows, Step, Xa

DATABASE = "xa"
LARGE = 4000
"""Rows that are more than is kept of a prepared transaction."""


@pytest.fixture(scope="module", params=["gtids", "no gtids"])
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of this module's own, once with GTIDs and once without."""
    options: dict[str, str | int] = {"server_id": 17}
    if request.param != "gtids":
        options |= GTIDS_OFF
    tables = (
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.t (id int PRIMARY KEY, pad varchar(300) NOT NULL DEFAULT '')",
    )
    with own_mysql(stack, *tables, options=options) as server:
        yield server


@pytest.fixture(params=["plain", "compressed"])
def session(request: pytest.FixtureRequest, mysql: Mysql) -> Iterator[str]:
    """The first statement of each session, on an empty table and without prepared transactions afterwards."""
    run(mysql, f"DELETE FROM {DATABASE}.t")
    yield f"SET SESSION binlog_transaction_compression = {int(request.param == 'compressed')}"
    with connected(mysql) as cursor:
        cursor.execute("XA RECOVER CONVERT XID")
        left = cursor.fetchall()
    for number, size, _, data in left:
        name = data[2:]
        run(mysql, f"XA ROLLBACK X'{name[: 2 * size]}',X'{name[2 * size :]}',{number}")


def insert(*ids: int) -> str:
    return f"INSERT INTO {DATABASE}.t (id) VALUES {', '.join(f'({n})' for n in ids)}"


def insert_many(count: int = LARGE) -> list[str]:
    rows = ", ".join(f"({n}, REPEAT('{n:06}', 50))" for n in range(1, count + 1))
    return [f"INSERT INTO {DATABASE}.t VALUES {rows}"]


def prepared(mysql: Mysql, session: str, name: str, *statements: str) -> None:
    around = (f"XA END '{name}'", f"XA PREPARE '{name}'")
    run(mysql, session, f"XA START '{name}'", *statements, *around)


@dataclass
class Read:
    """The steps read between two positions."""

    chunks: list[Chunk]
    steps: list[Step]

    @property
    def rows(self) -> list[tuple[str, int]]:
        """The number of rows of each ended transaction, by its id."""
        found: list[tuple[str, int]] = []
        held = 0
        for step in self.steps:
            if isinstance(step, Rows):
                held += len(ids_of(step))
            elif isinstance(step, End) and held:
                found.append((step.transaction.id, held))
                held = 0
        return found

    @property
    def ids(self) -> list[int]:
        return [n for step in self.steps if isinstance(step, Rows) for n in ids_of(step)]

    @property
    def prepared(self) -> dict[str, PreparedPosition]:
        """The prepared transactions in a cursor's form."""
        found: dict[str, PreparedPosition] = {}
        for step in self.steps:
            if isinstance(step, Xa):
                found.pop(step.xid, None)
                if step.is_prepared:
                    who = step.transaction
                    found[step.xid] = PreparedPosition(who.start, who.gtid)
        return found

    @property
    def last(self) -> str:
        return self.steps[-1].transaction.id


def ids_of(step: Rows) -> list[int]:
    body, at, found = step.body, 6 + 2 + 2 + 1 + 1, []
    while at < len(body):
        found.append(int.from_bytes(body[at + 1 : at + 5], "little"))
        size = int.from_bytes(body[at + 5 : at + 7], "little")
        at += 7 + size
    return found


def read(
    mysql: Mysql, begin: SourceOffset, known: dict[str, PreparedPosition] | None = None
) -> Read:
    """All steps from an offset to the server's end, by a stream without earlier state."""
    end, facts = end_of(mysql), facts_of(mysql)
    stream = BinlogStream(address_of(mysql), begin, prepared=known)
    stream.open()
    found = Read([], [])
    reader = TransactionReader(facts.server_uuid, facts.charsets)
    try:
        for chunk in stream.chunks(lambda: True):
            recorded = Recorded()
            reader.read(chunk, recorded)
            found.chunks.append(chunk)
            found.steps += recorded.steps
            last = found.steps[-1] if found.steps else None
            if isinstance(last, End) and last.end.order >= end.order:
                return found
    finally:
        stream.close()
    raise AssertionError


def test_rows_come_with_the_commit_and_under_its_name(mysql: Mysql, session: str) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(1, 2), insert(3))
    before = now(mysql)
    assert read(mysql, begin).ids == []
    run(mysql, "XA COMMIT 'a'")
    found = read(mysql, begin)
    assert found.ids == [1, 2, 3]
    assert found.rows == [(found.last, 3)]
    assert found.prepared == {}
    if before.gtid_set is None:
        assert found.last.endswith(f":{before.coordinates}")
    else:
        assert isinstance(before.gtid_set, GtidSet)
        assert found.last not in before.gtid_set


def test_rows_that_are_rolled_back_never_come(mysql: Mysql, session: str) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(9000))
    prepared(mysql, session, "b", *insert_many())
    run(mysql, "XA ROLLBACK 'b'", "XA ROLLBACK 'a'", insert(7))
    found = read(mysql, begin)
    assert found.ids == [7]
    assert found.prepared == {}


@pytest.mark.parametrize("rows", [[insert(1, 2)], insert_many()], ids=["small", "large"])
def test_a_commit_in_one_phase_is_a_transaction_like_others(
    mysql: Mysql, session: str, rows: list[str]
) -> None:
    begin = now(mysql)
    run(
        mysql, session, "XA START 'a'", *rows, "XA END 'a'", "XA COMMIT 'a' ONE PHASE", insert(9999)
    )
    found = read(mysql, begin)
    assert found.ids == [*range(1, len(found.ids)), 9999]
    assert len(found.rows) == 2
    assert found.prepared == {}


def test_transactions_of_several_sessions_come_in_the_order_of_their_commits(
    mysql: Mysql, session: str
) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(1))
    run(mysql, session, insert(2))
    prepared(mysql, session, "b", insert(3))
    run(mysql, session, insert(4))
    run(mysql, "XA COMMIT 'b'", insert(5), "XA COMMIT 'a'")
    prepared(mysql, session, "a", insert(6))
    run(mysql, "XA COMMIT 'a'", insert(7))
    found = read(mysql, begin)
    assert found.ids == [2, 4, 3, 5, 1, 6, 7]
    assert len(found.rows) == 7


@pytest.mark.parametrize("rows", [[insert(1, 2)], insert_many()], ids=["small", "large"])
def test_a_start_after_the_prepare_reads_its_rows_again(
    mysql: Mysql, session: str, rows: list[str]
) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", *rows)
    run(mysql, session, insert(8001))
    prepared(mysql, session, "b", insert(8002))
    first, middle = read(mysql, begin), now(mysql)
    run(mysql, insert(8003), "FLUSH BINARY LOGS", "XA COMMIT 'a'", insert(8004), "XA COMMIT 'b'")
    assert first.ids == [8001]
    second = read(mysql, middle, first.prepared)
    assert second.ids == [8003, *second.ids[1:-2], 8004, 8002]
    assert second.ids[1:-2] == list(range(1, len(second.ids) - 2))
    assert len(second.rows) == 4
    assert read(mysql, begin).ids == [8001, *second.ids]


def test_a_large_one_comes_in_pieces_that_are_the_same_each_time(
    mysql: Mysql, session: str
) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", *insert_many())
    run(mysql, "XA COMMIT 'a'")
    found, again = read(mysql, begin), read(mysql, begin)
    assert found.ids == again.ids == list(range(1, LARGE + 1))
    assert max(chunk.size for chunk in found.chunks) < 2 * TARGET
    assert sum(bool(chunk.context) for chunk in found.chunks) > 2
    assert {step.transaction.id for step in found.steps if isinstance(step, Rows)} == {found.last}


def test_a_prepared_one_outlives_the_server(mysql: Mysql, session: str) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(1, 2))
    first, middle = read(mysql, begin), now(mysql)
    mysql.kill()
    mysql.start()
    run(mysql, insert(3), "XA COMMIT 'a'")
    assert read(mysql, middle, first.prepared).ids == [3, 1, 2]
    assert read(mysql, begin).ids == [3, 1, 2]


def test_a_commit_of_what_was_prepared_before_the_start_is_refused_by_name(
    mysql: Mysql, session: str
) -> None:
    prepared(mysql, session, "stranger", insert(1))
    begin = now(mysql)
    run(mysql, insert(2), "XA COMMIT 'stranger'")
    with pytest.raises(PreparedRowsGone) as caught:
        read(mysql, begin)
    assert f"xid=X'{b'stranger'.hex()}',X'',1" in str(caught.value)
    assert "coordinates=" in str(caught.value)


def test_a_rollback_of_what_was_prepared_before_the_start_is_nothing(
    mysql: Mysql, session: str
) -> None:
    prepared(mysql, session, "stranger", insert(1))
    begin = now(mysql)
    run(mysql, "XA ROLLBACK 'stranger'", insert(2))
    assert read(mysql, begin).ids == [2]


def test_rows_in_a_purged_file_are_missed_by_name(mysql: Mysql, session: str) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(1))
    known = read(mysql, begin).prepared
    run(mysql, "FLUSH BINARY LOGS")
    middle = now(mysql)
    run(mysql, f"PURGE BINARY LOGS TO '{middle.coordinates.file}'", "XA COMMIT 'a'")
    with pytest.raises(PreparedRowsGone) as caught:
        read(mysql, middle, known)
    assert f"xid=X'{b'a'.hex()}',X'',1" in str(caught.value)
    assert f"prepared_at={known.popitem()[1]}" in str(caught.value)


def test_another_transaction_in_the_place_is_not_taken_for_it(mysql: Mysql, session: str) -> None:
    begin = now(mysql)
    prepared(mysql, session, "a", insert(1))
    prepared(mysql, session, "b", insert(2))
    places = read(mysql, begin).prepared
    (one, at), (other, _) = places.items()
    middle = now(mysql)
    run(mysql, "XA COMMIT 'b'")
    with pytest.raises(PreparedRowsGone, match="something else is at their position"):
        read(mysql, middle, {other: at})
    assert one != other
