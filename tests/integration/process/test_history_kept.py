"""The schema history over days, in a minute: snapshots are made, what is too old goes, restarts find it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from app.operator.journal_access import Journal
from app.settings.model import load
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import running, settings
from tests.integration.process.test_worker import insert
from tests.integration.worker.source import end_of


def alter(mysql: Mysql, first: int, count: int) -> None:
    for n in range(first, first + count):
        run(
            mysql,
            f"ALTER TABLE shop.t ADD COLUMN c{n} int NOT NULL DEFAULT {n}",
            f"INSERT INTO shop.t (id, x) VALUES ({n}, {n})",
        )


def test_snapshots_bound_what_is_kept_and_a_restart_continues_from_the_last(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    wanted["schema_history"] = {"snapshot_statements": 5, "snapshot_expire_hours": 0.00001}
    run(mysql, "CREATE VIEW shop.listed AS SELECT 1 AS a")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "CREATE VIEW shop.made AS SELECT 1 AS a")
        alter(mysql, 0, 12)
        worker.wait(lambda status: status["rows"] == 12)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        # They change nothing, as the server knows views of these names, and so does the history.
        for view in ("listed", "made"):
            run(mysql, f"CREATE TABLE IF NOT EXISTS shop.{view} (id int PRIMARY KEY)")
        alter(mysql, 12, 12)
        worker.wait(lambda status: status["rows"] == 12)
        numbers = itertools.count(24)

        def is_bounded() -> bool:
            """Expired history is removed; the first piece after the last snapshot notes it in the journal."""
            run(mysql, f"INSERT INTO shop.t (id, x) VALUES ({next(numbers)}, 1)")
            history = asyncio.run(Journal.of(load(), "shop").state()).history()
            assert history is not None
            return history.checkpoints[0].number > 1 and len(history.records) < 24

        until(is_bounded)
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    state = asyncio.run(Journal.of(load(), "shop").state())
    history = state.history()
    assert history is not None
    assert history.count == 25
    assert history.now().views() == {("shop", "listed"), ("shop", "made")}
    assert history.find("shop", "listed") is None
    assert history.find("shop", "made") is None
    assert history.checkpoints[0].number > 1
    assert len(history.records) < 24
    table = history.find("shop", "t")
    assert table is not None
    assert [column.name for column in table.columns] == ["id", "x", *(f"c{n}" for n in range(24))]
    published = rows(stack, wanted["prefix"], "t")
    assert [len(change.value["after"]) for change in published[:24]] == [3 + n for n in range(24)]


@pytest.mark.long("the units of the schema history have the steps")
def test_what_a_start_far_in_the_past_does_not_know_is_taken_up_once_it_has_caught_up(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More was written since then than the worker reads a second time before it begins."""
    run(mysql, "CREATE TABLE shop.blobs (id int PRIMARY KEY, b longblob)", "FLUSH BINARY LOGS")
    run(mysql, f"PURGE BINARY LOGS TO '{end_of(mysql).file}'")
    insert(mysql, 1, 3)
    for n in range(24):
        run(mysql, f"INSERT INTO shop.blobs VALUES ({n}, REPEAT('x', 1 << 20))")
    wanted = settings(stack, mysql, tmp_path, filter={"include": r"shop\.t"})
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 3)
        # It is near the present once what it reads is new.
        insert(mysql, 4, 1)
        worker.wait(lambda _: "the schema history takes in" in worker.log)
        run(mysql, "ALTER TABLE shop.t ADD COLUMN y int")
        run(mysql, "INSERT INTO shop.t VALUES (5, 1, 1)")
        worker.wait(lambda status: status["rows"] == 5)
    history = asyncio.run(Journal.of(load(), "shop").state()).history()
    assert history is not None
    for table, columns in (("t", ["id", "x", "y"]), ("blobs", ["id", "b"])):
        found = history.find("shop", table)
        assert found is not None
        assert [column.name for column in found.columns] == columns
    published = rows(stack, wanted["prefix"], "t")
    assert sorted(change.value["after"]["id"] for change in published) == [1, 2, 3, 4, 5]
