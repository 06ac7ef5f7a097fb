"""Going back over hundreds of changed tables: each row is decoded as it was when it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.operator.journal_access import Journal
from app.settings.model import load
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.journal.state import cursor_key, encoded
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import Change, rows
from tests.harness.worker import running, settings
from tests.integration.process.churn import churned

STATEMENTS = 100
_FULL = pytest.mark.long(
    "rows that name no columns are read by the history alone: MINIMAL asks more"
)


@pytest.fixture(params=["MINIMAL", pytest.param("FULL", marks=_FULL)])
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with full row metadata."""
    options = {"server_id": 9, "binlog_row_metadata": request.param}
    with own_mysql(stack, "CREATE DATABASE shop", options=options) as server:
        yield server


def created(changes: list[Change]) -> list[dict[str, Any]]:
    return [change.value["after"] for change in changes if change.value["op"] == "c"]


def total(written: dict[str, list[dict[str, Any]]]) -> int:
    return sum(map(len, written.values()))


def test_a_cursor_that_is_set_back_over_hundreds_of_statements_reads_each_row_as_it_was(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
        journal = Journal.of(load(), "shop")
        beginning = asyncio.run(journal.state()).cursor
        assert beginning is not None
        written = churned(mysql.host, mysql.port, threads=2, statements=STATEMENTS // 2)
        worker.wait(lambda status: status["rows"] >= total(written))
        run(
            mysql, "CREATE TABLE shop.done (id int PRIMARY KEY)", "INSERT INTO shop.done VALUES (1)"
        )
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "done")))
        assert worker.stop() == 0
        assert "quarantined" not in worker.log
    first = {name: created(rows(stack, wanted["prefix"], name)) for name in written}
    assert first == written

    end = asyncio.run(journal.state()).cursor
    assert end is not None
    back = replace(end, offset=beginning.offset)
    asyncio.run(journal.write((cursor_key("shop"), encoded(back.to_json()))))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda _: len(rows(stack, wanted["prefix"], "done")) == 2)
        assert worker.stop() == 0
        assert "quarantined" not in worker.log
        assert "Traceback" not in worker.log
    for name, expected in written.items():
        again = rows(stack, wanted["prefix"], name)
        assert created(again) == expected * 2
        half = [change.change_id for change in again]
        assert half[: len(half) // 2] == half[len(half) // 2 :]
    assert asyncio.run(journal.state()).is_whole()
