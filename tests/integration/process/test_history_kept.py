"""The schema history over days, in a minute: snapshots are made, what is too old goes, restarts find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.commands.journal import Journal
from devstack import Stack
from devstack.mysql import Mysql
from tests.integration.process.consumed import rows
from tests.integration.process.test_worker import mysql, run
from tests.integration.process.worker import running, settings

__all__ = ["mysql"]


def alter(mysql: Mysql, first: int, count: int) -> None:
    for n in range(first, first + count):
        run(
            mysql,
            f"ALTER TABLE shop.t ADD COLUMN c{n} int NOT NULL DEFAULT {n}",
            f"INSERT INTO shop.t (id, x) VALUES ({n}, {n})",
        )


def test_snapshots_bound_what_is_kept_and_a_restart_goes_on_from_the_last(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    wanted["schema_history"] = {"snapshot_statements": 5, "snapshot_expire_hours": 0.0003}
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 0, 12)
        worker.wait(lambda status: status["rows"] == 12)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        alter(mysql, 12, 12)
        worker.wait(lambda status: status["rows"] == 12)
        # Until what is too old is gone, which a piece behind the last snapshot tells the journal.
        for n in range(24, 60):
            run(mysql, f"INSERT INTO shop.t (id, x) VALUES ({n}, 1)")
            history = Journal.of("shop").state().history()
            assert history is not None
            if history.checkpoints[0].number > 1:
                break
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    state = Journal.of("shop").state()
    history = state.history()
    assert history is not None
    assert history.count == 24
    assert history.checkpoints[0].number > 1
    assert len(history.records) < 24
    table = history.find("shop", "t")
    assert table is not None
    assert [column.name for column in table.columns] == ["id", "x", *(f"c{n}" for n in range(24))]
    published = rows(stack, wanted["prefix"], "t")
    assert [len(change.value["after"]) for change in published[:24]] == [3 + n for n in range(24)]
