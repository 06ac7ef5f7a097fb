"""A table whose existing rows cannot be read now: `error` names why, and it ends once that is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.worker import Worker, running, settings
from tests.integration.validation.trouble import (
    ACCOUNT,
    READER,
    ROWS,
    allowed,
    altering,
    denied_column,
    killing,
    slow_table,
)

MANY = 6_000
TABLES = ("altered", "denied", "killed", "torn")
_LONG = pytest.mark.long(
    "unit/app/worker/destination/snapshot/test_table_reading.py shows what cannot be read, "
    "unit/app/worker/destination/takeover/test_initial_snapshots.py what may not be seen"
)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with an account that may read these tables."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *(
            f"CREATE TABLE shop.{one} (id int PRIMARY KEY, v int, w int)"
            for one in TABLES
            if one != "killed"
        ),
        "INSERT INTO shop.denied VALUES (1, 1, 1), (2, 2, 2)",
        "INSERT INTO shop.torn VALUES (1, 1, 1), (2, 2, 2)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO shop.altered WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n "
        f"WHERE i < {MANY}) SELECT i, i, i FROM n",
        *slow_table("killed"),
        *ACCOUNT,
        *(f"GRANT SELECT ON shop.{one} TO {READER}" for one in TABLES),
        options={"server_id": 9},
    ) as server:
        yield server


class Shop:
    """A worker that begins at the binlog's end, and the commands beside it."""

    def __init__(self, stack: Stack, mysql: Mysql, folder: Path) -> None:
        self.stack, self.folder = stack, folder
        self.wanted = settings(stack, mysql, folder, start="latest")
        # `snapshot status` asks the worker for what prevents reading.
        self.wanted["worker"] = {"advertised_address": f"127.0.0.1:{self.wanted['http']['port']}"}
        source = self.wanted["destinations"]["shop"]["source"]
        source |= {"user": "reader", "password": "reader"}
        self.wanted["destinations"]["shop"]["snapshot"] = {"rows_per_second": 1_000}

    def start(self, table: str, *, code: int = 0) -> str:
        """Request the rows of a table; what is printed."""
        done = run_command(self.config, "snapshot", "start", "shop", f"shop.{table}")
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "aqueduct.yaml"

    def error(self, worker: Worker, table: str) -> str:
        """What prevents reading, once something does; `snapshot status` prints it."""
        name = f"shop.{table}"

        def has_error(status: dict[str, Any]) -> bool:
            return bool(status["snapshot"].get(name, {}).get("error"))

        found = str(worker.wait(has_error)["snapshot"][name]["error"])
        shown = run_command(self.config, "snapshot", "status", "shop")
        assert found.split(" [")[0] in shown.stdout, shown.stdout + shown.stderr
        assert worker.destination()["state"] == "RUNNING"
        return found

    def ends(self, worker: Worker, *tables: str) -> None:
        """Wait until tables are read to their ends by themselves, and compare them with the source."""
        names = [f"shop.{one}" for one in tables]
        worker.wait(
            lambda status: (
                {status["snapshot"].get(one, {}).get("state") for one in names} == {"done"}
            )
        )
        shown = worker.destination()["snapshot"]
        assert {shown[one]["error"] for one in names} == {None}
        done = run_command(self.config, "validate", "shop", *names, "--format", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert (found["equal"], found["differences"]) == (True, 0)

    def read(self, table: str) -> list[int]:
        """The keys of existing rows, as they came."""
        found = rows(self.stack, self.wanted["prefix"], table)
        return [one.value["after"]["id"] for one in found if one.value["op"] == "r"]


@pytest.mark.remedy("TableUnreadable")
@_LONG
def test_killed_statements_and_a_denied_column_are_shown_and_end_by_themselves(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    shop = Shop(stack, mysql, tmp_path)
    with running(shop.wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        with killing(mysql, "killed") as kills:
            shop.start("killed")
            error = shop.error(worker, "killed")
            assert "Query execution was interrupted (error 1317)" in error
            assert "Find out what kills statements" in error
            # The stream and other tables continue.
            denied_column(mysql, "denied")
            shop.start("denied")
            error = shop.error(worker, "denied")
            assert "for column 'w' in table 'denied' (error 1143)" in error
            assert "Run GRANT SELECT ON `shop`.`denied` TO the account of reader" in error
            run(mysql, "INSERT INTO shop.denied VALUES (3, 3, 3)")
            worker.wait(lambda status: status["rows"] >= 1)
            worker.wait(lambda _: kills.count >= 3)
            assert shop.read("killed") == shop.read("denied") == []
        allowed(mysql, "denied")
        shop.ends(worker, "killed", "denied")
        assert sorted(shop.read("killed")) == list(range(1, ROWS + 1))
        assert "Traceback" not in worker.log


@_LONG
def test_an_alter_that_waits_for_longer_is_shown_and_the_reading_resumes_by_the_new_definition(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    shop = Shop(stack, mysql, tmp_path)
    with running(shop.wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        with altering(mysql, "altered", "ADD COLUMN x int NOT NULL DEFAULT 7"):
            # A request on a locked table is refused by one error.
            refused = shop.start("altered", code=1)
            assert "Lock wait timeout exceeded" in refused
            assert "End the session that holds the lock" in refused
        shop.start("altered")
        worker.wait(lambda status: bool(status["snapshot"].get("shop.altered", {}).get("rows")))
        with altering(mysql, "altered", "ADD COLUMN y int NOT NULL DEFAULT 8, DROP COLUMN w"):
            error = shop.error(worker, "altered")
            assert "for 60 s other sessions had locked it, or rows of it: Lock wait" in error
            assert "(error 1205)" in error
            assert "End the session that holds the lock (SHOW PROCESSLIST" in error
            assert 0 < len(shop.read("altered")) < MANY
        run(mysql, "UPDATE shop.altered SET v = 0 WHERE id % 100 = 0")
        shop.ends(worker, "altered")
        assert sorted(set(shop.read("altered"))) == list(range(1, MANY + 1))
        assert "Traceback" not in worker.log


@_LONG
def test_a_table_that_was_altered_without_the_binlog_is_shown_until_it_is_as_before(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    shop = Shop(stack, mysql, tmp_path)
    with running(shop.wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        unlogged = "SET SESSION sql_log_bin = 0"
        run(mysql, unlogged, "ALTER TABLE shop.torn DROP COLUMN w")
        shop.start("torn")
        error = shop.error(worker, "torn")
        assert "not as its schema history has it: Unknown column 'w'" in error
        assert "(error 1054)" in error
        assert "python -m app schema check" in error
        run(mysql, unlogged, "ALTER TABLE shop.torn ADD COLUMN w int")
        shop.ends(worker, "torn")
        assert shop.read("torn") == [1, 2]
        assert "Traceback" not in worker.log


@_LONG
def test_a_table_of_which_only_some_columns_may_be_seen_from_the_beginning_waits_for_its_grant(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    denied_column(mysql, "denied")
    shop = Shop(stack, mysql, tmp_path)
    shop.wanted["destinations"]["shop"].pop("start")
    shop.wanted["destinations"]["shop"]["snapshot"] = {"mode": "initial"}
    seen = [one for one in TABLES if one != "denied"]
    grant = "only some of its columns may be seen: GRANT SELECT ON `shop`.`denied` TO 'reader'@'%';"
    with running(shop.wanted, tmp_path) as worker:
        error = shop.error(worker, "denied")
        assert grant in error
        shop.ends(worker, *seen)
        done = run_command(shop.config, "validate", "shop")
        assert done.returncode == 3, done.stdout + done.stderr
        assert f"shop.denied: not compared: {grant} then restart the destination" in done.stdout
        assert f"tables={len(TABLES)} not_compared=1" in done.stdout
        # Another request waits for the same.
        assert run_command(shop.config, "snapshot", "stop", "shop").returncode == 0
        assert "shop.denied: waiting" in shop.start("denied")
        assert grant in shop.error(worker, "denied")
        allowed(mysql, "denied")
        shop.ends(worker, "denied")
        assert shop.read("denied") == [1, 2]
        assert "Traceback" not in worker.log


@_LONG
def test_tables_that_may_not_be_seen_at_all_wait_for_their_grants_and_are_read_once_they_may(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    """Of more tables than are read at once; a name that only the server has is found by itself."""
    hidden = [f"h{number:02}" for number in range(20)]
    for one in (*hidden, "other"):
        run(
            mysql,
            f"CREATE TABLE shop.{one} (id int PRIMARY KEY)",
            f"INSERT INTO shop.{one} VALUES (1)",
        )
    # Lists a table, and none of its columns.
    run(mysql, f"GRANT DELETE ON shop.{hidden[15]} TO {READER}")
    shop = Shop(stack, mysql, tmp_path)
    shop.wanted["destinations"]["shop"].pop("start")
    shop.wanted["destinations"]["shop"]["snapshot"] = {"mode": "initial"}
    names = "|".join(("altered", "torn", *hidden))
    shop.wanted["destinations"]["shop"]["filter"] = {"include": rf"shop\.({names}),shop\.o.*"}
    grant = "GRANT SELECT ON `shop`.`h07` TO 'reader'@'%';"
    with running(shop.wanted, tmp_path) as worker:
        assert f"the account may not see it: {grant}" in shop.error(worker, "h07")
        assert "none of its columns may be seen" in shop.error(worker, hidden[15])
        shop.ends(worker, "altered", "torn")
        shown = run_command(shop.config, "snapshot", "status", "shop").stdout
        assert "one that it may not see is read once it may" in shown
        assert "GRANT SELECT ON `shop`.* TO 'reader'@'%';" in shown
        assert f'tables_prevented{{destination="shop"}} {len(hidden) + 1}.0' in worker.get(
            "/metrics"
        )
        done = run_command(shop.config, "validate", "shop")
        assert done.returncode == 3, done.stdout + done.stderr
        assert f"shop.h07: not compared: the account may not see it: {grant}" in done.stdout
        run(mysql, *(f"GRANT SELECT ON shop.{one} TO {READER}" for one in hidden[:10]))
        shop.ends(worker, *hidden[:10])
        assert worker.stop() == 0
    run(mysql, f"GRANT SELECT ON shop.{hidden[10]} TO {READER}")
    with running(shop.wanted, tmp_path) as worker:
        shop.ends(worker, hidden[10])
        assert "GRANT SELECT ON `shop`.`h11`" in shop.error(worker, "h11")
        # A table that is created now is in the stream.
        run(
            mysql, "CREATE TABLE shop.onew (id int PRIMARY KEY)", "INSERT INTO shop.onew VALUES (1)"
        )
        run(mysql, f"GRANT SELECT ON shop.* TO {READER}")
        shop.ends(worker, *hidden, "other")
        worker.wait(lambda status: not status["snapshot_waits"])
        assert "shop.onew" not in worker.destination()["snapshot"]
        assert "Traceback" not in worker.log
    for one in (*hidden, "other"):
        assert shop.read(one) == [1]
    assert shop.read("onew") == []


def test_rows_that_a_statement_changes_without_row_events_are_named_until_they_are_read_again(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(
        mysql,
        "CREATE TABLE shop.parted (id int PRIMARY KEY, v int, w int) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (11), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO shop.parted SELECT * FROM shop.altered",
        "CREATE TABLE shop.swap (id int PRIMARY KEY, v int, w int)",
        "INSERT INTO shop.swap VALUES (1, 100, 0), (3, 300, 0)",
        *(f"GRANT SELECT ON shop.{one} TO {READER}" for one in ("parted", "swap")),
    )
    shop = Shop(stack, mysql, tmp_path)

    def failed(worker: Worker, table: str, what: str) -> str:
        name = f"shop.{table}"
        found = worker.wait(
            lambda status: status["snapshot"].get(name, {}).get("state") == "failed"
        )["snapshot"][name]["error"]
        assert found.startswith(f"{what} (GTID "), found
        assert found.endswith(f"python -m app snapshot start shop {name} --replace")
        return str(found)

    with running(shop.wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        shop.start("parted")
        worker.wait(lambda status: bool(status["snapshot"].get("shop.parted", {}).get("rows")))
        run(mysql, "ALTER TABLE shop.parted EXCHANGE PARTITION p0 WITH TABLE shop.swap")
        failed(worker, "swap", "EXCHANGE PARTITION")
        # It is read to its end, and then says what it may lack.
        error = failed(worker, "parted", "EXCHANGE PARTITION")
        assert shop.read("parted") == list(range(1, MANY + 1))
        assert worker.stop() == 0
    with running(shop.wanted, tmp_path) as worker:
        assert failed(worker, "parted", "EXCHANGE PARTITION") == error
        for one in (error, failed(worker, "swap", "EXCHANGE PARTITION")):
            words = one.partition("python -m app ")[2].split()
            assert run_command(shop.config, *words).returncode == 0
        shop.ends(worker, "parted", "swap")
        run(mysql, "ALTER TABLE shop.parted TRUNCATE PARTITION p0", "FLUSH TABLES shop.swap")
        # What is not read at the moment, too.
        failed(worker, "parted", "TRUNCATE PARTITION")
        assert worker.destination()["state"] == "RUNNING"
        run(mysql, "ALTER TABLE shop.swap DISCARD TABLESPACE")
        failed(worker, "swap", "DISCARD TABLESPACE")
