"""A table that cannot be read with certainty: it waits alone, and comes back whole, in order and once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import Change, keys, rows, statements, values
from tests.harness.wait import TIMEOUT
from tests.harness.worker import Worker, running, settings
from wire.topics import schemas_topic

TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.calm (id int PRIMARY KEY, x int)",
    "CREATE TABLE shop.torn (id int PRIMARY KEY, a int, b int)",
)


_MINIMAL = pytest.mark.parametrize(
    "metadata",
    ["MINIMAL", pytest.param("FULL", marks=pytest.mark.long("MINIMAL, which needs the history"))],
    indirect=True,
)
_FULL = pytest.mark.parametrize(
    "metadata",
    ["MINIMAL", "FULL"],
    indirect=True,
)


@pytest.fixture
def metadata(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mysql(stack: Stack, metadata: str) -> Iterator[Mysql]:
    """A server of the test's own, with full row metadata."""
    options: dict[str, str | int] = {"server_id": 9, "binlog_row_metadata": metadata}
    with own_mysql(stack, *TABLES, options=options) as server:
        yield server


def schema(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m app schema …` with the worker's settings."""
    return run_command(folder / "aqueduct.yaml", "schema", *arguments)


def tear(mysql: Mysql) -> None:
    """Alter a table without writing to the binlog: two columns change places."""
    run(
        mysql,
        "SET sql_log_bin = 0",
        "ALTER TABLE shop.torn MODIFY b bigint FIRST",
    )


def published(stack: Stack, prefix: str) -> list[checks.Record]:
    found = [*rows(stack, prefix, "calm"), *rows(stack, prefix, "torn"), *statements(stack, prefix)]
    return [record_of(change) for change in found]


def record_of(change: Change) -> checks.Record:
    source = change.value["source"]
    return checks.Record(
        topic=str(source["table"]),
        partition=0,
        offset=0,
        change_id=change.change_id if not change.change_id.endswith("#ddl") else None,
        seq=change.seq,
        epoch=source["epoch"],
        committed_ms=source["ts_ms"],
    )


def images(changes: list[Change]) -> list[dict[str, Any]]:
    return [change.value["after"] for change in changes]


def waits(worker: Worker) -> None:
    worker.wait(lambda status: [one["table"] for one in status["set_aside"]] == ["shop.torn"])


@pytest.mark.remedy("WitnessesDiffer")
@_MINIMAL
def test_a_table_that_changed_unseen_waits_alone_and_comes_back_in_order(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "INSERT INTO shop.torn VALUES (1, 10, 100)")
        worker.wait(lambda status: status["rows"] == 1)
        tear(mysql)
        run(
            mysql,
            "INSERT INTO shop.torn (id, a, b) VALUES (2, 20, 200)",
            "INSERT INTO shop.calm VALUES (1, 1)",
            "BEGIN",
            "INSERT INTO shop.calm VALUES (2, 2)",
            "INSERT INTO shop.torn (id, a, b) VALUES (3, 30, 300), (4, 40, 400)",
            "INSERT INTO shop.calm VALUES (3, 3)",
            "COMMIT",
            "ALTER TABLE shop.torn ADD COLUMN c int NOT NULL DEFAULT 7",
            "INSERT INTO shop.torn (id, a, b) VALUES (5, 50, 500)",
            "INSERT INTO shop.calm VALUES (4, 4)",
        )
        worker.wait(lambda status: status["rows"] == 5)
        waits(worker)
        assert 'aqueduct_tables_set_aside{destination="shop"} 1.0' in worker.get("/metrics")
        listed = schema(tmp_path, "quarantine", "shop", "--format", "json")
        assert listed.returncode == 1, listed.stderr
        (entry,) = json.loads(listed.stdout)
        assert (entry["database"], entry["table"]) == ("shop", "torn")
        # Three rows events, and the ALTER between them.
        assert entry["waiting"] == 4
        assert "app schema resolve shop shop.torn --definition FILE.sql" in entry["action"]

        # What does not fit is refused, and nothing is lost by trying.
        wrong = tmp_path / "wrong.sql"
        wrong.write_text("CREATE TABLE torn (id int PRIMARY KEY, a int, b int)")
        refused = schema(tmp_path, "resolve", "shop", "shop.torn", "--definition", str(wrong))
        said = refused.stdout + refused.stderr + worker.log[-3000:]
        assert (refused.returncode, "refused" in refused.stdout) == (1, True), said

        right = tmp_path / "right.sql"
        right.write_text("CREATE TABLE torn (b bigint, id int PRIMARY KEY, a int)")
        fits = schema(tmp_path, "resolve", "shop", "shop.torn", "--definition", str(right))
        assert fits.returncode == 0, fits.stdout + fits.stderr + worker.log[-3000:]
        run(mysql, "INSERT INTO shop.torn (id, a, b, c) VALUES (6, 60, 600, 8)")
        status = worker.wait(lambda status: status["rows"] == 10)
        assert status["set_aside"] == []
        assert "Traceback" not in worker.log
    prefix = wanted["prefix"]
    torn = rows(stack, prefix, "torn")
    assert [change.value["source"]["schema"] for change in torn] == [1, 2, 2, 2, 3, 3]
    assert [row["id"] for row in images(torn)] == [1, 2, 3, 4, 5, 6]
    assert [row["b"] for row in images(torn)] == [100, 200, 300, 400, 500, 600]
    assert [row.get("c") for row in images(torn)] == [None, None, None, None, 7, 8]
    assert [row["id"] for row in images(rows(stack, prefix, "calm"))] == [1, 2, 3, 4]
    records = published(stack, prefix)
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


@_MINIMAL
def test_a_table_that_is_given_up_is_lost_alone_until_it_is_recreated_or_resolved(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "INSERT INTO shop.torn VALUES (1, 10, 100)")
        tear(mysql)
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (2, 20, 200)")
        waits(worker)
        careless = schema(tmp_path, "resolve", "shop", "shop.torn", "--give-up")
        assert (careless.returncode, "--yes-lose-rows" in careless.stderr) == (2, True)
        said = schema(tmp_path, "resolve", "shop", "shop.torn", "--give-up", "--yes-lose-rows")
        assert said.returncode == 0, said.stdout + said.stderr + worker.log[-3000:]
        assert "1 waiting event(s) are lost" in said.stdout
        run(
            mysql,
            "INSERT INTO shop.torn (id, a, b) VALUES (3, 30, 300)",
            "ALTER TABLE shop.torn ADD COLUMN c int",
            "INSERT INTO shop.calm VALUES (1, 1)",
        )
        worker.wait(lambda status: status["rows"] >= 1 and status["cursor"]["seq"] >= 3)
        metrics = worker.get("/metrics")
        assert 'aqueduct_tables_set_aside{destination="shop"} 0.0' in metrics
        assert 'aqueduct_tables_given_up{destination="shop"} 1.0' in metrics
        assert 'handling="given up",type="WRITE_ROWS"' in metrics
    # It was killed; a statement recreates the table.
    with running(wanted, tmp_path) as worker:
        status = worker.wait(lambda status: [one["lost"] for one in status["given_up"]] == [1])
        assert status["set_aside"] == []
        run(
            mysql,
            "INSERT INTO shop.torn (id, a, b) VALUES (4, 40, 400)",
            "DROP TABLE shop.torn",
            "CREATE TABLE shop.torn (id int PRIMARY KEY, a int, b int)",
            "INSERT INTO shop.torn VALUES (5, 50, 500)",
        )
        worker.wait(lambda status: status["given_up"] == [] and status["rows"] == 1)
        # Given up once more, it is read from where somebody says how.
        tear(mysql)
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (6, 60, 600)")
        waits(worker)
        again = schema(tmp_path, "resolve", "shop", "shop.torn", "--give-up", "--yes-lose-rows")
        assert again.returncode == 0, again.stdout + again.stderr
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (7, 70, 700)")
        back = schema(tmp_path, "resolve", "shop", "shop.torn", "--server")
        assert back.returncode == 0, back.stdout + back.stderr
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (8, 80, 800)")
        worker.wait(lambda status: status["rows"] >= 2)
        assert "Traceback" not in worker.log
    listed = schema(tmp_path, "audit", "shop", "--type", "resolution", "--format", "json")
    given = [one["given"]["source"] for one in json.loads(listed.stdout)["statements"]]
    assert given == ["give-up", "give-up", "server"]
    prefix = wanted["prefix"]
    torn = images(rows(stack, prefix, "torn"))
    ids = [row["id"] for row in torn]
    # The seventh came before it was resolved or after that; it was dropped, or published rightly.
    assert ids in ([1, 5, 8], [1, 5, 7, 8])
    assert all(row["b"] == 100 * row["id"] for row in torn)
    records = published(stack, prefix)
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


@_MINIMAL
def test_rows_without_a_primary_key_have_the_key_that_stands_for_it(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    columns = (
        "(a int, b int NOT NULL, c char(3) NOT NULL, UNIQUE (a), UNIQUE second (c, b), UNIQUE (b))"
    )
    run(
        mysql, f"CREATE TABLE shop.keyed {columns}", "CREATE TABLE shop.keyless (a int, UNIQUE (a))"
    )
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(
            mysql,
            "INSERT INTO shop.keyed VALUES (1, 2, 'x')",
            "UPDATE shop.keyed SET b = 3",
            "INSERT INTO shop.keyless VALUES (1)",
            f"CREATE TABLE shop.later {columns}",
            "INSERT INTO shop.later VALUES (4, 5, 'y')",
        )
        worker.wait(lambda status: status["rows"] >= 4 and status["set_aside"] == [])
    prefix = wanted["prefix"]
    # The change of the key is a delete and a create, each under its own.
    assert keys(stack, prefix, "keyed") == [
        {"c": "x", "b": 2},
        {"c": "x", "b": 2},
        {"c": "x", "b": 3},
    ]
    assert keys(stack, prefix, "later") == [{"c": "y", "b": 5}]
    assert keys(stack, prefix, "keyless") == [None]
    result = {
        (record["table"], tuple(record["primary_key"]))
        for record in values(stack, schemas_topic(prefix))
    }
    assert result == {("keyed", ("c", "b")), ("later", ("c", "b")), ("keyless", ())}
    (made,) = (one.value for one in statements(stack, prefix) if "later" in one.value["ddl"])
    assert made["tables"][0]["new"]["primary_key"] == ["c", "b"]


@_FULL
@pytest.mark.long("the tests above resolve, and make crash kills")
def test_what_the_server_or_the_binlog_says_is_taken_on_demand_also_after_a_kill(
    stack: Stack, mysql: Mysql, tmp_path: Path, metadata: str
) -> None:
    source = "--binlog" if metadata == "FULL" else "--server"
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "INSERT INTO shop.calm VALUES (1, 1)")
        tear(mysql)
        for n in range(1, 2001):
            if n % 100 == 1:
                values = ", ".join(f"({k}, {k}, {k})" for k in range(n, n + 100))
                run(mysql, f"INSERT INTO shop.torn (id, a, b) VALUES {values}")
        waits(worker)
    # It was killed; what waits is in Kafka, and the next worker knows of it.
    with running(wanted, tmp_path) as worker:
        waits(worker)
        said = schema(tmp_path, "resolve", "shop", "shop.torn", source)
        assert said.returncode == 0, said.stdout + said.stderr + worker.log[-3000:]
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (2001, 2001, 2001)")
        status = worker.wait(lambda status: status["rows"] >= 2001)
        assert status["set_aside"] == []
    torn = rows(stack, wanted["prefix"], "torn")
    assert [row["id"] for row in images(torn)] == list(range(1, 2002))
    assert [row["b"] for row in images(torn)] == list(range(1, 2002))
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


@pytest.mark.parametrize("metadata", ["FULL"], indirect=True)
def test_a_resolution_by_the_binlog_waits_for_the_first_row_of_its_table(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    # Killed once the table is quarantined, before any of its events is read again.
    monkeypatch.setenv(VARIABLE, "claim.after=kill@2")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        tear(mysql)
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (1, 10, 100)")
        worker.process.wait(TIMEOUT)
    # The resolution comes before the row, which this worker reads with a delay.
    monkeypatch.setenv(VARIABLE, "read.chunk=stall:3")
    with running(wanted, tmp_path) as worker:
        waits(worker)
        answer = schema(tmp_path, "resolve", "shop", "shop.torn", "--binlog")
        assert answer.returncode == 0, answer.stdout + answer.stderr + worker.log[-3000:]
        run(mysql, "INSERT INTO shop.torn (id, a, b) VALUES (2, 20, 200)")
        status = worker.wait(lambda status: status["rows"] >= 2)
        assert status["set_aside"] == []
        # Nothing waits for a table that was given up; its next row brings the definition.
        tear_back = ("SET sql_log_bin = 0", "ALTER TABLE shop.torn MODIFY b int AFTER a")
        run(mysql, *tear_back)
        run(mysql, "INSERT INTO shop.torn VALUES (3, 30, 300)")
        waits(worker)
        lost = schema(tmp_path, "resolve", "shop", "shop.torn", "--give-up", "--yes-lose-rows")
        assert lost.returncode == 0, lost.stdout + lost.stderr + worker.log[-3000:]
        asked = schema(tmp_path, "resolve", "shop", "shop.torn", "--binlog", "--timeout", "3")
        assert asked.returncode == 1, asked.stdout + asked.stderr
        assert "no row of it waits yet" in asked.stderr
        waits(worker)
        run(mysql, "INSERT INTO shop.torn VALUES (4, 40, 400)")
        worker.wait(lambda status: status["rows"] >= 3 and status["set_aside"] == [])
        assert "Traceback" not in worker.log
    torn = rows(stack, wanted["prefix"], "torn")
    assert [(row["id"], row["b"]) for row in images(torn)] == [(1, 100), (2, 200), (4, 400)]
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
