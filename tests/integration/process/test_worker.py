"""The worker as a process: started, stopped, misconfigured, and distinguished from another one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from demo import checks, topics
from demo.topics import Layout
from devstack import Stack
from devstack.mysql import Mysql
from devstack.programs import WORKER
from tables.rules.routes.routes import Routes
from tests.harness.sql import run
from tests.harness.worker import running, settings
from tests.integration.mariadb.published import marker_records

_ONE_MORE = pytest.mark.long("unit/app/settings has each message")


def insert(mysql: Mysql, first: int, count: int) -> None:
    rows = ", ".join(f"({n}, 1)" for n in range(first, first + count))
    run(mysql, f"INSERT INTO shop.t VALUES {rows}")


def published(stack: Stack, prefix: str) -> list[checks.Record]:
    layout = Layout(Routes(prefix=prefix), "shop")
    names = [layout.topic_of("t"), layout.ddl_topic]
    contents = asyncio.run(topics.read(stack.kafka, names, mark=b"\0never\0"))
    return contents.records


def test_a_stopped_worker_continues_where_it_was(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    insert(mysql, 0, 10)
    with running(wanted, tmp_path, command=WORKER) as worker:
        first = worker.wait(lambda status: status["rows"] == 10)["cursor"]["epoch"]
        assert worker.get("/health") == "ok\n"
        assert 'aqueduct_rows_published_total{destination="shop",op="c"} 10.0' in worker.get(
            "/metrics"
        )
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    insert(mysql, 10, 5)
    with running(wanted, tmp_path, command=WORKER) as worker:
        status = worker.wait(lambda status: status["rows"] == 5)
        assert status["cursor"]["epoch"] > first
        assert "status shop: RUNNING" in worker.log or worker.stop() == 0
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
    assert len(records) == 15 + 2


@pytest.mark.remedy("SourceLost")
def test_a_server_that_goes_away_is_waited_for_and_nothing_is_lost(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    insert(mysql, 0, 10)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 10)
        mysql.kill()
        status = worker.wait(lambda status: status["state"] == "RETRYING")
        assert "SourceLost" in status["error"]
        assert "shop" in status["error"]
        mysql.start()
        insert(mysql, 10, 10)
        worker.wait(lambda status: status["rows"] == 20 and status["state"] == "RUNNING")
        assert "Traceback" not in worker.log
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert len(records) == 20 + 2


@pytest.mark.long("test_large_transaction has the parts, through a kill")
def test_a_large_transaction_is_published_in_parts(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path) | {"publish": {"max_bytes": 65536, "interval_ms": 1}}
    insert(mysql, 0, 1000)
    run(mysql, "ALTER TABLE shop.t ADD note char(250)")
    # Five megabytes of one transaction, which are some chunks.
    copies = (
        f"INSERT INTO shop.t SELECT id + {n}, x, REPEAT('y', 250) FROM shop.t WHERE id < 1000"
        for n in range(1000, 20_000, 1000)
    )
    run(mysql, "BEGIN", *copies, "COMMIT")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 20_000)
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert len(records) == 20_000 + 3
    ends = asyncio.run(marker_records(stack.kafka, wanted["prefix"], "shop"))
    assert max(marker["part"] for marker in ends if marker["status"] == "END") > 2


@pytest.mark.parametrize(
    ("statements", "error", "says"),
    [
        (
            ["SET SESSION binlog_format = STATEMENT", "UPDATE shop.t SET x = 2"],
            "StatementBasedChange",
            "binlog_format=ROW",
        ),
    ],
)
def test_what_cannot_be_carried_stops_the_destination_by_name(
    stack: Stack, mysql: Mysql, tmp_path: Path, statements: list[str], error: str, says: str
) -> None:
    insert(mysql, 0, 3)
    aside = "CREATE DATABASE aside", "CREATE TABLE aside.t (n int)"
    run(mysql, *aside, "SET SESSION binlog_format = STATEMENT", "INSERT INTO aside.t VALUES (1)")
    run(mysql, *statements)
    # As Canal's files write it, and a name that is misspelt.
    wanted = settings(stack, mysql, tmp_path, filter={"include": r"shop\\..*,shpo\.t"})
    with running(wanted, tmp_path) as worker:
        status = worker.wait(lambda status: status["state"] == "FAILED")
        assert error in status["error"]
        assert says in status["error"]
        assert "coordinates=" in status["error"]
        assert "tables=shop.t" in status["error"]
        (warning,) = status["warnings"]
        assert r"shpo\.t matches no table; near it are shop.t" in warning
        assert warning in worker.log
        assert status["statements_passed"] == {"aside.t": 1}
        assert 'aqueduct_statements_passed_total{destination="shop"} 1.0' in worker.get("/metrics")
        assert status["rows"] == 3
        assert worker.process.poll() is None


def test_every_wrong_setting_of_the_server_is_named_with_its_remedy(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(
        mysql,
        "SET GLOBAL binlog_row_image = MINIMAL",
        "REVOKE REPLICATION CLIENT ON *.* FROM aqueduct@'%'",
    )
    with running(settings(stack, mysql, tmp_path), tmp_path) as worker:
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
    assert "SET PERSIST binlog_row_image = 'FULL'" in error
    assert "GRANT REPLICATION CLIENT ON *.*" in error


def test_a_wrong_password_is_reported_without_showing_it(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["source"]["password"] = "canary-4711"
    with running(wanted, tmp_path) as worker:
        error = worker.wait(lambda status: status["state"] == "RETRYING")["error"]
        assert "SourceRefused" in error
        assert "Access denied" in error
        assert "canary-4711" not in worker.log
        assert "Traceback" not in worker.log


@pytest.mark.remedy("AnotherWorkerLeads")
def test_a_second_worker_leaves_the_first_alone_and_follows_it(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    first_folder, second_folder = tmp_path / "first", tmp_path / "second"
    first_folder.mkdir()
    second_folder.mkdir()
    wanted = settings(stack, mysql, tmp_path)
    insert(mysql, 0, 2)
    with running(wanted, first_folder) as first:
        first.wait(lambda status: status["rows"] == 2)
        more = settings(stack, mysql, tmp_path) | {"prefix": wanted["prefix"]}
        with running(more, second_folder) as second:
            error = second.wait(lambda status: status["state"] == "FENCED")["error"]
            assert error.startswith("AnotherWorkerLeads: ")
            insert(mysql, 2, 2)
            first.wait(lambda status: status["rows"] == 4)
            first.process.kill()
            first.process.wait()
            insert(mysql, 4, 2)
            second.wait(lambda status: status["rows"] == 2 and status["state"] == "RUNNING")
    assert checks.seq_faults(published(stack, wanted["prefix"])) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"prefix": "no spaces"}, "prefix:"),
        pytest.param({"destinations": {}}, "destinations:", marks=_ONE_MORE),
        pytest.param({"extra": 1}, "extra: no such setting; there are ", marks=_ONE_MORE),
    ],
)
def test_unusable_settings_end_the_worker_with_one_message(
    stack: Stack, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    wanted = settings(stack, stack.mysql, tmp_path) | change
    with running(wanted, tmp_path, command=WORKER) as worker:
        assert worker.process.wait(30) == 78
        assert worker.log.startswith("aqueduct: SettingsError")
        assert says in worker.log
        assert "Traceback" not in worker.log
