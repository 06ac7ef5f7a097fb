"""The central schema store under a real worker: it follows the journal, and its failures never stop capture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tables.history.schema_store_rows import history_of
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.worker import Worker, running, settings
from tests.integration.central_store.conftest import store
from tests.integration.process.test_quarantine import schema

META = "meta"


@pytest.fixture
def central(stack: Stack) -> Iterator[Mysql]:
    """The store's server."""
    account = (
        "CREATE USER 'meta'@'%' IDENTIFIED BY 'right'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON {META}.* TO 'meta'@'%'",
    )
    with own_mysql(stack, *account, options={"server_id": 10}) as server:
        yield server


def wanted(
    stack: Stack, mysql: Mysql, central: Mysql, folder: Path, **history: Any
) -> dict[str, Any]:
    """Settings with that store."""
    settings_given = settings(stack, mysql, folder, start="latest")
    settings_given["schema_history"] = {
        "store": "mysql",
        "mysql": {
            "host": central.host,
            "port": central.port,
            "user": "meta",
            "password": "right",
            "database": META,
        },
        **history,
    }
    return settings_given


def follows(count: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the store has the statements of this many rows."""

    def reached(status: dict[str, Any]) -> bool:
        status_found = status["schema_store"]
        there: bool = status_found["state"] == "following" and status_found["lag_records"] == 0
        return there and bool(status["rows"] >= count)

    return reached


def alter(mysql: Mysql, first: int, count: int) -> None:
    """Statements, each followed by a row."""
    for n in range(first, first + count):
        run(
            mysql,
            f"ALTER TABLE shop.t ADD COLUMN c{n} int",
            f"INSERT INTO shop.t (id, c{n}) VALUES ({n}, {n})",
        )


def texts(central: Mysql) -> list[str]:
    found = ask(
        central,
        f"SELECT sql_text FROM {META}.meta_history WHERE destination = 'shop' "
        "AND binlog_master_id NOT LIKE '%#%' ORDER BY binlog_file, binlog_offest",
    )
    return [str(text) for (text,) in found]


def added(*numbers: int) -> list[str]:
    return [f"ALTER TABLE shop.t ADD COLUMN c{n} int" for n in numbers]


def lag(worker: Worker) -> float:
    (found,) = re.findall(
        r'^aqueduct_schema_store_lag_records\{destination="shop"\} (.+)$',
        worker.get("/metrics"),
        re.MULTILINE,
    )
    return float(found)


def test_statements_are_in_the_store_and_read_back_they_are_the_history(
    stack: Stack, mysql: Mysql, central: Mysql, tmp_path: Path
) -> None:
    settings_given = wanted(stack, mysql, central, tmp_path, snapshot_statements=4)
    with running(settings_given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 1, 6)
        worker.wait(follows(6))
        assert lag(worker) == 0
        assert worker.stop() == 0
    alter(mysql, 7, 2)
    with running(settings_given, tmp_path) as worker:
        worker.wait(follows(2))
        assert "Traceback" not in worker.log
    assert texts(central) == added(*range(1, 9))
    history = history_of(store(central, META).read("shop"))
    assert history is not None
    assert len(history.records) == 8
    assert len(history.checkpoints) > 1
    table = history.find("shop", "t")
    assert table is not None
    assert [column.name for column in table.columns][2:] == [f"c{n}" for n in range(1, 9)]
    (uuid,) = {record.position.server_uuid for record in history.records}
    assert uuid == ask(mysql, "SELECT @@server_uuid")[0][0]
    for words in (("show", "shop", "shop.t"), ("rebuild", "shop"), ("audit", "shop")):
        asked = (*words, "--format", "json")
        read = [
            json.loads(schema(tmp_path, *asked, *more).stdout) for more in ((), ("--from-store",))
        ]
        assert read[0] == read[1]
    assert schema(tmp_path, "show", "other", "shop.t", "--from-store").returncode == 1


@pytest.mark.remedy("StoreLost")
def test_a_store_that_is_killed_under_load_catches_up_when_it_is_back(
    stack: Stack, mysql: Mysql, central: Mysql, tmp_path: Path
) -> None:
    settings_given = wanted(stack, mysql, central, tmp_path)
    with running(settings_given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 1, 5)
        central.kill()
        alter(mysql, 6, 20)
        status = worker.wait(
            lambda status: status["rows"] == 25 and status["schema_store"]["state"] == "retrying"
        )
        assert status["state"] == "RUNNING"
        assert "StoreLost" in status["schema_store"]["error"]
        assert status["schema_store"]["lag_records"] > 0
        assert lag(worker) > 0
        central.start()
        worker.wait(follows(25))
        assert worker.log.count("central schema store: StoreLost") == 1
        assert "Traceback" not in worker.log
    assert texts(central) == added(*range(1, 26))


@pytest.mark.long("a store that is killed catches up")
def test_what_was_missed_over_a_restart_and_a_checkpoint_is_read_from_the_journal(
    stack: Stack, mysql: Mysql, central: Mysql, tmp_path: Path
) -> None:
    settings_given = wanted(stack, mysql, central, tmp_path, snapshot_statements=5)
    with running(settings_given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 1, 3)
        worker.wait(follows(3))
        central.kill()
        alter(mysql, 4, 20)
        worker.wait(lambda status: status["rows"] == 23)
        assert worker.stop() == 0
    central.start()
    with running(settings_given, tmp_path) as worker:
        worker.wait(follows(0))
    assert texts(central) == added(*range(1, 24))
    history = history_of(store(central, META).read("shop"))
    assert history is not None
    assert (history.checkpoints[0].count, history.count) == (0, 23)


@pytest.mark.parametrize(
    ("fault", "mending", "error"),
    [
        (
            "ALTER USER 'meta'@'%' IDENTIFIED BY 'other'",
            "ALTER USER 'meta'@'%' IDENTIFIED BY 'right'",
            "StoreRefused",
        ),
        (
            f"REVOKE INSERT ON {META}.* FROM 'meta'@'%'",
            f"GRANT INSERT ON {META}.* TO 'meta'@'%'",
            "StoreRefused",
        ),
        (
            f"CREATE TABLE {META}.meta_history (id int)",
            f"DROP TABLE {META}.meta_history",
            "StoreUnfit",
        ),
    ],
)
@pytest.mark.long("central_store/test_meta_store has each refusal")
def test_a_store_that_an_operator_must_repair_is_reported_and_capture_continues(
    stack: Stack,
    mysql: Mysql,
    central: Mysql,
    tmp_path: Path,
    *,
    fault: str,
    mending: str,
    error: str,
) -> None:
    settings_given = wanted(stack, mysql, central, tmp_path)
    ask(central, f"CREATE DATABASE {META}", fault)
    with running(settings_given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 1, 3)
        status = worker.wait(
            lambda status: status["rows"] == 3 and status["schema_store"]["state"] == "failed"
        )
        assert status["state"] == "RUNNING"
        assert error in status["schema_store"]["error"]
        assert "right" not in worker.log
        ask(central, mending)
        worker.wait(follows(3))
        assert worker.log.count(f"central schema store: {error}") == 1
    assert texts(central) == added(1, 2, 3)
