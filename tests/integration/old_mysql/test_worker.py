"""The whole worker on servers whose binlog names no columns: their rows are read by the schema history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_server
from tests.harness.sql import run
from tests.harness.topics import Change, rows, statements
from tests.harness.worker import running, settings
from tests.integration.process.test_quarantine import record_of

SERIES = ("5.6", "5.7", "8.0")


def _of_series(kept: str) -> pytest.MarkDecorator:
    """This series, and the others in ``make test SUITE=long``."""
    others = pytest.mark.long("the other test has it")
    return pytest.mark.parametrize(
        "mysql",
        [name if name == kept else pytest.param(name, marks=others) for name in SERIES],
        indirect=True,
    )


TABLE = """CREATE TABLE shop.orders (id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    buyer varchar(40) CHARACTER SET latin1, state enum('new','paid','sent') NOT NULL DEFAULT 'new',
    price decimal(10,2), placed datetime) DEFAULT CHARSET=utf8mb4"""


@pytest.fixture
def mysql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mysql]:
    """An old server of the test's own."""
    folder, tables = tmp_path / "mysql", ("CREATE DATABASE shop", TABLE)
    with own_server(request.param, folder, *tables, options={"server_id": 9}) as server:
        yield server


def images(changes: list[Change]) -> list[dict[str, Any] | None]:
    return [change.value["after"] for change in changes]


def insert(mysql: Mysql, number: int) -> None:
    run(
        mysql,
        "INSERT INTO shop.orders (buyer, state, price, placed) "
        f"VALUES ('café {number}', 'paid', {number}.50, '2024-02-29 12:00:00')",
    )


# Before 5.7 a prepared transaction is in the binlog once it is committed.
@_of_series("5.6")
def test_a_prepared_transaction_of_an_old_server_is_published_when_it_is_committed(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(
            mysql,
            "XA START 'a'",
            "INSERT INTO shop.orders (buyer) VALUES ('x'), ('y')",
            "XA END 'a'",
            "XA PREPARE 'a'",
            "XA COMMIT 'a'",
            "XA START 'b'",
            "INSERT INTO shop.orders (buyer) VALUES ('never')",
            "XA END 'b'",
            "XA PREPARE 'b'",
            "XA ROLLBACK 'b'",
        )
        insert(mysql, 1)
        worker.wait(lambda status: status["rows"] >= 3)
        assert worker.stop() == 0
    published = rows(stack, wanted["prefix"], "orders")
    assert [image and image["buyer"] for image in images(published)] == ["x", "y", "café 1"]


@_of_series("5.7")
def test_a_server_whose_binlog_names_no_columns_is_captured_through_statements_and_kills(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        insert(mysql, 1)
        run(
            mysql,
            "ALTER TABLE shop.orders ADD COLUMN note text AFTER id, DROP COLUMN placed",
            "INSERT INTO shop.orders (note, buyer, state, price) VALUES ('n', 'b', 'sent', -1.25)",
            "UPDATE shop.orders SET buyer = NULL WHERE id = 2",
        )
        worker.wait(lambda status: status["rows"] == 3)
    # Killed: the next one reads the history from the journal.
    run(
        mysql,
        "DELETE FROM shop.orders",
        "ALTER TABLE shop.orders CHANGE price cost decimal(12,3) UNSIGNED, "
        "MODIFY state enum('sent','new') NOT NULL FIRST",
        "INSERT INTO shop.orders (state, cost) VALUES ('sent', 3.125)",
    )
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 3)
        assert worker.stop() == 0
        assert "quarantined" not in worker.log
        assert "Traceback" not in worker.log
    published = rows(stack, wanted["prefix"], "orders")
    assert [change.value["op"] for change in published] == ["c", "c", "u", "d", "d", "c"]
    first, second, changed, _, _, last = images(published)
    assert first == {
        "id": 1, "buyer": "café 1", "state": "paid", "price": "1.50", "placed": "2024-02-29T12:00:00",
    }  # fmt: skip
    assert second == {"id": 2, "note": "n", "buyer": "b", "state": "sent", "price": "-1.25"}
    assert changed == {"id": 2, "note": "n", "buyer": None, "state": "sent", "price": "-1.25"}
    assert last == {"state": "sent", "id": 3, "note": None, "buyer": None, "cost": "3.125"}
    records = [record_of(change) for change in [*published, *statements(stack, wanted["prefix"])]]
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


@pytest.mark.long("unit/connectors/mysql/schema/test_definition_check.py has where the columns are")
@pytest.mark.parametrize("mysql", ["8.0"], indirect=True)
def test_tables_with_indexes_on_expressions_are_read_and_what_is_not_certain_is_released(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    index = "INDEX f ((a + 1)), INDEX g ((LOWER(c)), a, (a * 2) DESC), UNIQUE u ((COALESCE(c, '')))"
    tables = ("early", "late", "bare", "twice")
    for table in tables:
        own = "a BIGINT, c VARCHAR(20)" if table == "twice" else "a INT, c VARCHAR(20)"
        run(mysql, f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, {own}, j JSON, {index})")
    run(
        mysql,
        "INSERT INTO shop.early VALUES (1, 1, 'A', '{}')",
        "CREATE TABLE shop.calm (id INT PRIMARY KEY)",
    )
    wanted = settings(stack, mysql, tmp_path, snapshot={"mode": "initial"})
    wanted["destinations"]["shop"].pop("start")
    with running(wanted, tmp_path) as worker:
        worker.wait(
            lambda status: {one["state"] for one in status["snapshot"].values()} == {"done"}
        )
        run(
            mysql,
            "UPDATE shop.early SET c = 'B'",
            # What is added is after the hidden columns of those that are left.
            "ALTER TABLE shop.late DROP INDEX f, ADD b INT",
            "INSERT INTO shop.late VALUES (1, 1, 'A', '{}', 7)",
            "ALTER TABLE shop.late RENAME INDEX g TO h, ADD d INT AFTER a, ADD INDEX z ((b + 1))",
            "INSERT INTO shop.late VALUES (2, 2, 3, 'B', '{}', 8)",
            "SET GLOBAL binlog_row_metadata = 'MINIMAL'",
        )
        run(
            mysql,
            "INSERT INTO shop.bare VALUES (1, 1, 'A', '{}')",
            "ALTER TABLE shop.twice DROP INDEX g, DROP INDEX u, ADD b BIGINT",
            "INSERT INTO shop.twice VALUES (1, 1, 'A', '{}', 5)",
            "INSERT INTO shop.calm VALUES (1)",
        )
        (waiting,) = worker.wait(lambda status: bool(status["set_aside"]))["set_aside"]
        assert waiting["table"] == "shop.twice"
        assert "binlog_row_metadata=FULL" in waiting["why"]
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "calm")))
        run(mysql, "SET GLOBAL binlog_row_metadata = 'FULL'")
        for how in (("--give-up", "--yes-lose-rows"), ("--server",)):
            done = run_command(
                tmp_path / "aqueduct.yaml", "schema", "resolve", "shop", "shop.twice", *how
            )
            assert done.returncode == 0, (done.stdout, done.stderr)
        run(mysql, "INSERT INTO shop.twice VALUES (2, 2, 'B', '{}', 6)")
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "twice")))
        assert worker.destination()["set_aside"] == []
        assert worker.stop() == 0
    found = {name: images(rows(stack, wanted["prefix"], name)) for name in tables}
    plain = {"id": 1, "a": 1, "c": "A", "j": "{}"}
    assert found == {
        "early": [plain, {**plain, "c": "B"}],
        "late": [{**plain, "b": 7}, {"id": 2, "a": 2, "d": 3, "c": "B", "j": "{}", "b": 8}],
        "bare": [plain],
        "twice": [{"id": 2, "a": 2, "c": "B", "j": "{}", "b": 6}],
    }
