"""A binlog that is read late: each row has the columns that its table had, whatever became of the table since.

These are the ways in which reading the past with today's tables goes wrong: other columns, as many columns of
other meaning, a table that is gone, and one of the same name that is another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.worker import running, settings

PAST: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
    "widened": (
        (
            "CREATE TABLE widened (id int PRIMARY KEY, a int)",
            "INSERT INTO widened VALUES (1, 10)",
            "ALTER TABLE widened ADD COLUMN b varchar(5) AFTER id, MODIFY a bigint",
            "INSERT INTO widened VALUES (2, 'two', 20)",
            "ALTER TABLE widened DROP COLUMN a",
        ),
        [{"id": 1, "a": 10}, {"id": 2, "b": "two", "a": 20}],
    ),
    "turned": (
        (
            "CREATE TABLE turned (id int PRIMARY KEY, gross int, net int)",
            "INSERT INTO turned VALUES (1, 119, 100)",
            "ALTER TABLE turned MODIFY gross int AFTER net",
            "INSERT INTO turned VALUES (2, 200, 238)",
            "ALTER TABLE turned RENAME COLUMN gross TO net, RENAME COLUMN net TO gross",
        ),
        [{"id": 1, "gross": 119, "net": 100}, {"id": 2, "net": 200, "gross": 238}],
    ),
    "gone": (
        (
            "CREATE TABLE gone (id int PRIMARY KEY, note varchar(9) CHARACTER SET latin1)",
            "INSERT INTO gone VALUES (1, 'früher')",
            "DROP TABLE gone",
        ),
        [{"id": 1, "note": "früher"}],
    ),
    "other": (
        (
            "CREATE TABLE other (id int PRIMARY KEY, state enum('new','paid'))",
            "INSERT INTO other VALUES (1, 'paid')",
            "DROP TABLE other",
            "CREATE TABLE other (id int PRIMARY KEY, state set('paid','new'))",
            "INSERT INTO other VALUES (2, 'new,paid')",
        ),
        [{"id": 1, "state": "paid"}, {"id": 2, "state": "paid,new"}],
    ),
}


_FULL = pytest.mark.long(
    "rows that name no columns are read by the history alone: MINIMAL asks more"
)


@pytest.fixture(params=["MINIMAL", pytest.param("FULL", marks=_FULL)])
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with full row metadata."""
    options = {"server_id": 9, "binlog_row_metadata": request.param}
    with own_mysql(stack, options=options) as server:
        yield server


def test_rows_of_the_past_are_read_as_their_tables_were(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(mysql, "CREATE DATABASE shop")
    for statements, _ in PAST.values():
        run(mysql, "USE shop", *statements)
    wanted = settings(stack, mysql, tmp_path, start="earliest")
    with running(wanted, tmp_path) as worker:
        status = worker.wait(
            lambda status: status["rows"] == sum(len(found) for _, found in PAST.values())
        )
        assert status["set_aside"] == []
    for name, (_, expected) in PAST.items():
        found = [change.value["after"] for change in rows(stack, wanted["prefix"], name)]
        assert found == expected
        assert [list(row) for row in found] == [list(row) for row in expected]
