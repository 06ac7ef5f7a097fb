"""Chunks of a server whose sessions begin with one view of the data, or with rows that are not committed."""

from __future__ import annotations

import time

import pytest

from connectors.mysql.gtid import GtidSet
from devstack import Stack
from tests.harness.sql import connected, run
from tests.integration.snapshot.both import DATABASE
from tests.integration.snapshot.test_chunks import reader_of


@pytest.mark.parametrize(
    ("variable", "worst"),
    [("autocommit", "0"), ("transaction_isolation", "'READ-UNCOMMITTED'")],
)
def test_each_chunk_has_what_is_committed_when_it_is_read(
    stack: Stack, variable: str, worst: str
) -> None:
    table = f"{DATABASE}.views"
    run(
        stack.mysql,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))",
        f"INSERT INTO {table} VALUES (1, 'old'), (2, 'old'), (3, 'old'), (4, 'old'), (5, 'old')",
    )
    reader = reader_of(stack, "views")
    run(stack.mysql, f"SET GLOBAL {variable} = {worst}")
    try:
        with connected(stack.mysql) as open_one:
            open_one.execute("SET SESSION autocommit = 0")
            open_one.execute(f"INSERT INTO {table} VALUES (6, 'never')")
            reader._limit = 2
            first = reader.read(None, GtidSet())
            assert first is not None
            run(
                stack.mysql,
                "SET SESSION autocommit = 1",
                f"DELETE FROM {table} WHERE id = 3",
                f"UPDATE {table} SET v = 'new' WHERE id = 5",
            )
            reader._limit = 9
            rest = reader.read(first.last, GtidSet())
            assert rest is not None
            open_one.execute("ROLLBACK")
        reader.close()
    finally:
        run(stack.mysql, f"SET GLOBAL {variable} = DEFAULT")
    assert (first.rows, rest.rows, rest.is_last) == (2, 2, True)
    text = b"".join(rest.blocks)
    assert [text.count(one) for one in (b"old", b"new", b"never")] == [1, 1, 0]


def test_a_connection_that_waits_for_its_turn_stays(stack: Stack) -> None:
    table = f"{DATABASE}.idle"
    run(
        stack.mysql,
        f"CREATE TABLE {table} (id INT PRIMARY KEY)",
        f"INSERT INTO {table} VALUES (1), (2), (3)",
    )
    reader = reader_of(stack, "idle")
    run(stack.mysql, "SET GLOBAL wait_timeout = 1")
    try:
        reader._limit = 2
        first = reader.read(None, GtidSet())
        assert first is not None
        time.sleep(2.5)
        rest = reader.read(first.last, GtidSet())
    finally:
        run(stack.mysql, "SET GLOBAL wait_timeout = DEFAULT")
    reader.close()
    assert rest is not None
    assert (rest.rows, rest.is_last) == (1, True)
