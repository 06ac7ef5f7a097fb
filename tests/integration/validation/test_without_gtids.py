"""`python -m app validate` of a MySQL without GTIDs and of MariaDB, while rows are written all the time.

Transactions of such a MySQL are in its binlog for longer than it takes to publish them before they are visible:
a SELECT that does not wait for them returns older rows than the topic has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.operator.validate import validate
from app.settings.model import load
from connectors.mysql.select import chunk_reader, read_views
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import WITHOUT_GTIDS, Options, own_server
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.validation.shop import changing, filled, wanted_settings
from tests.integration.validation.test_repair import repaired
from tests.integration.validation.test_validate import (
    KEYED,
    assert_equal,
    assert_found,
    is_done,
    plant,
    validated,
)

NEWEST, MARIADB = f"9.7{WITHOUT_GTIDS}", "mariadb-11.8"
LATE = "SET GLOBAL binlog_group_commit_sync_delay = 500000"
"""Microseconds, which is several times as long as it takes to publish a change."""


@pytest.fixture
def mysql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mysql]:
    """A server of its own with a shop."""
    name: str = request.param
    options: Options = {"character_set_server": "utf8mb4", "server_id": 9}
    with own_server(name, tmp_path / "server", options=options) as server:
        filled(server)
        if not name.startswith("mariadb"):
            run(server, LATE)
        yield server


@pytest.mark.parametrize(
    "mysql",
    [NEWEST, f"8.0{WITHOUT_GTIDS}", "mariadb-10.11", MARIADB],
    indirect=True,
)
@pytest.mark.long("test_validate.py has them with GTIDs")
def test_planted_differences_are_found_and_repaired_while_other_rows_change(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        # The end of the binlog is the head of a file without transactions.
        run(mysql, "FLUSH BINARY LOGS")
        assert_equal(tmp_path)
        with changing(mysql, seed=5):
            results = assert_equal(tmp_path)
            assert results["shop.many"]["rows"] > 4_000
            plant(mysql)
            assert_found(validated(tmp_path, code=1))
            found = repaired(tmp_path)
            assert found["shop.orders_2"].startswith("2 row(s) published again, 1 extra row(s)")
            assert_equal(tmp_path)
            sampled = validated(tmp_path, *KEYED, "--sample", "2", code=0)
            assert sampled["shop.many"]["rows"] > 0
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
        assert_others_are_compared_while_a_row_is_locked(mysql, monkeypatch)
        assert worker.destination()["state"] == "RUNNING"
        assert worker.stop() == 0


def assert_others_are_compared_while_a_row_is_locked(
    mysql: Mysql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but locks shows what a SELECT sees, and they are waited for for a second instead of a minute."""
    for name, value in (("_COMMITS", ("SELECT 1",)), ("_QUIET_SECONDS", 0.01)):
        monkeypatch.setattr(read_views, name, value)
    monkeypatch.setattr(read_views, "_MOST_SECONDS", 0.01)
    monkeypatch.setattr(chunk_reader, "VISIBLE_SECONDS", 1.0)
    tables = ("shop", "customers"), ("shop", "kinds"), ("shop", "orders_1")
    with connected(mysql, autocommit=False) as cursor:
        cursor.execute("SELECT * FROM shop.kinds WHERE id = 3 FOR UPDATE")
        results = asyncio.run(
            validate(load(), "shop", tables=tables, unreachable=print, busy=print)
        ).tables
    reasons = {one.name[1]: one.not_compared for one in results}
    locked = reasons.pop("kinds") or ""
    assert "for 1 s other sessions had locked it, or rows of it" in locked
    assert reasons == {"customers": None, "orders_1": None}


@pytest.mark.long("the newest MySQL without GTIDs; reads of MariaDB")
def test_a_server_that_shows_nothing_is_refused_by_name(stack: Stack, tmp_path: Path) -> None:
    made = "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)"
    with own_server(f"5.6{WITHOUT_GTIDS}", tmp_path / "server", *made) as mysql:
        with running(settings(stack, mysql, tmp_path), tmp_path) as worker:
            worker.wait(lambda status: status["state"] == "RUNNING")
            refused = run_command(tmp_path / "aqueduct.yaml", "validate", "shop")
        assert refused.returncode == 1, refused.stdout
        assert "MySQL before 5.7.6 without GTIDs does not show what a SELECT sees" in refused.stderr
