"""XA transactions of a MariaDB, whose GTID events contain their kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.prepared_xa import PreparedPosition
from connectors.mysql.stream.replica import BinlogStream
from connectors.mysql.transaction_reader import TransactionReader
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.integration.worker.source import address_of, facts_of, now
from tests.steps import End, Rows, Step, Xa, steps_of

TABLE = "xa.t"


@pytest.fixture(autouse=True)
def table(mariadb: Mysql) -> Iterator[None]:
    run(mariadb, "CREATE DATABASE xa", f"CREATE TABLE {TABLE} (id int primary key, pad text)")
    yield
    run(mariadb, "DROP DATABASE xa")


def prepared(mariadb: Mysql, name: str, *statements: str) -> None:
    run(mariadb, f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'")


def insert(*ids: int, size: int = 1) -> str:
    rows = ", ".join(f"({n}, REPEAT('x', {size}))" for n in ids)
    return f"INSERT INTO {TABLE} VALUES {rows}"


def read(
    mariadb: Mysql, begin: SourceOffset, known: dict[str, PreparedPosition] | None = None
) -> list[Step]:
    """All steps from an offset to the server's end, by a stream without earlier state."""
    facts = facts_of(mariadb)
    stream = BinlogStream(address_of(mariadb), begin, prepared=known)
    stream.open()
    reader = TransactionReader(facts.server_uuid, facts.charsets, mariadb=True)
    # Other tests of this server have written in other domains too.
    last = str(facts.gtids_at_end).split(",")
    found: list[Step] = []
    try:
        for step in steps_of(stream.chunks(lambda: True), reader):
            found.append(step)
            if isinstance(step, End) and step.transaction.gtid in last:
                return found
    finally:
        stream.close()
    raise AssertionError


def ids_of(steps: list[Step]) -> list[int]:
    found = []
    for step in steps:
        if isinstance(step, Rows):
            at = 10 if step.event_type < 30 else 12
            while at < len(step.body):
                found.append(int.from_bytes(step.body[at + 1 : at + 5], "little"))
                at += 7 + int.from_bytes(step.body[at + 5 : at + 7], "little")
    return found


def test_rows_come_with_the_commit_and_under_its_name(mariadb: Mysql) -> None:
    begin = now(mariadb)
    prepared(mariadb, "a", insert(1, 2))
    prepared(mariadb, "b", insert(3))
    run(mariadb, insert(4), "XA COMMIT 'a'", "XA ROLLBACK 'b'", insert(5))
    steps = read(mariadb, begin)
    assert ids_of(steps) == [4, 1, 2, 5]
    ends = [step.transaction.gtid for step in steps if isinstance(step, End)]
    assert len(ends) == len(set(ends)) == 6
    assert [step.transaction.gtid for step in steps if isinstance(step, Rows)] == [
        ends[2], ends[3], ends[5],
    ]  # fmt: skip


def test_a_commit_in_one_phase_is_a_transaction_like_others(mariadb: Mysql) -> None:
    begin = now(mariadb)
    run(mariadb, "XA START 'a'", insert(1), "XA END 'a'", "XA COMMIT 'a' ONE PHASE")
    assert ids_of(read(mariadb, begin)) == [1]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_start_after_the_prepare_reads_its_rows_again(mariadb: Mysql, size: int) -> None:
    begin = now(mariadb)
    prepared(mariadb, "a", insert(*range(1000), size=size))
    run(mariadb, insert(5000))
    middle = now(mariadb)
    places = {
        step.xid: PreparedPosition(step.transaction.start, step.transaction.gtid)
        for step in read(mariadb, begin)
        if isinstance(step, Xa)
    }
    run(mariadb, insert(5001), "FLUSH BINARY LOGS", "XA COMMIT 'a'", insert(5002))
    assert ids_of(read(mariadb, middle, places)) == [5001, *range(1000), 5002]
    assert ids_of(read(mariadb, begin)) == [5000, 5001, *range(1000), 5002]
