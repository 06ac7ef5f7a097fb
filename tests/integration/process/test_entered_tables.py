"""A table that a RENAME brings in, whose rows are in no topic: a worker reads them, or prints what does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.worker import running, settings

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "unit/app/worker/destination/commit/test_entered_tables.py has the statements"
    ),
]


@pytest.mark.parametrize("mode", ["no_data", "initial"])
def test_its_rows_are_published_by_the_command_that_is_shown_or_without_one(
    stack: Stack, tmp_path: Path, mode: str
) -> None:
    made = (
        "CREATE DATABASE shop",
        "CREATE DATABASE hidden",
        "CREATE TABLE shop.u (id int PRIMARY KEY)",
        "CREATE TABLE hidden.u (id int PRIMARY KEY)",
        "INSERT INTO shop.u VALUES (1), (2)",
        "INSERT INTO hidden.u VALUES (10), (11), (12)",
    )
    with own_mysql(stack, *made, options={"server_id": 9}) as mysql:
        wanted = settings(stack, mysql, tmp_path, snapshot={"mode": mode})
        wanted["destinations"]["shop"].pop("start")
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: status["state"] == "RUNNING")
            if mode == "initial":
                worker.wait(lambda status: shown(status)[0] == "done")
            run(
                mysql,
                "RENAME TABLE shop.u TO shop.u_old, hidden.u TO shop.u",
                "DELETE FROM shop.u WHERE id = 12",
                "INSERT INTO shop.u VALUES (13)",
            )
            if mode == "no_data":
                worker.wait(lambda status: shown(status)[0] == "failed")
                error = worker.destination()["snapshot"]["shop.u"]["error"]
                assert "renamed from hidden.u, which is not captured" in error
                command = error.partition("Run: python -m app ")[2]
                assert command == "snapshot start shop shop.u --replace"
                said = run_command(tmp_path / "aqueduct.yaml", *command.split())
                assert said.returncode == 0, said.stderr
            worker.wait(lambda status: shown(status) == ("done", 3))
            assert worker.stop() == 0
    folded: set[int] = set()
    for one in rows(stack, wanted["prefix"], "u"):
        if one.value["op"] == "t":
            folded.clear()
        elif one.value["op"] == "d":
            folded.discard(one.value["before"]["id"])
        else:
            folded.add(one.value["after"]["id"])
    assert folded == {10, 11, 13}


def shown(status: dict[str, Any]) -> tuple[str, int]:
    """The state of the table's existing rows, and their number."""
    found = (status.get("snapshot") or {}).get("shop.u", {})
    return str(found.get("state")), int(found.get("rows", 0))
