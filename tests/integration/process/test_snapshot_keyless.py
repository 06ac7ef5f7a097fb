"""Existing rows of tables without a key, more than one portion: all of them enter together, or none."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, connected, run
from tests.harness.topics import Change, has_rows, rows
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings

DOUBLED = 13
ROWS = 10 << DOUBLED
"""Rows of about 250 bytes, so that they are more than a spool has in memory."""
KILLS = ("commit.after=kill@12", "produce.rows=kill@8", "commit.before=kill@14")


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with a large table without a key and a small one with a key."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.log (n int, text varchar(300))",
        "CREATE TABLE shop.small (id int PRIMARY KEY, v int)",
        "INSERT INTO shop.log VALUES " + ", ".join(f"({n}, REPEAT('{n}', 240))" for n in range(10)),
        *["INSERT INTO shop.log SELECT n, text FROM shop.log"] * DOUBLED,
        options={"server_id": 9},
    ) as server:
        yield server


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path, **snapshot: Any) -> dict[str, Any]:
    wanted = settings(stack, mysql, folder, snapshot={"mode": "initial", **snapshot})
    wanted["destinations"]["shop"].pop("start")
    # Small Kafka transactions, of which there are many.
    wanted["publish"] = {"max_bytes": 1 << 20, "interval_ms": 1}
    return wanted


@contextlib.contextmanager
def changing(mysql: Mysql, *statements: str, pause: float = 0.05) -> Iterator[Callable[[], None]]:
    """Execute these again and again, each with the number of the time, until the function is called."""

    def change(stop: threading.Event) -> None:
        number = 0
        with connected(mysql) as cursor:
            while not stop.wait(pause):
                number += 1
                for one in statements:
                    cursor.execute(one.format(number))

    with beside(change) as end:
        yield end


def is_done(status: dict[str, Any]) -> bool:
    return {one["state"] for one in status["snapshot"].values()} == {"done"}


def texts(image: dict[str, Any]) -> tuple[int, str]:
    return image["n"], image["text"]


def folded(changes: list[Change]) -> Counter[tuple[int, str]]:
    """The rows that a consumer has in the end."""
    found = Counter[tuple[int, str]]()
    for one in sorted(changes, key=lambda one: one.seq):
        op, before, after = one.value["op"], one.value["before"], one.value["after"]
        if op == "t":
            found.clear()
        if before is not None:
            found[texts(before)] -= 1
        if after is not None:
            found[texts(after)] += 1
    return +found


def assert_folds_to_the_source(mysql: Mysql, changes: list[Change]) -> None:
    source = Counter((n, text) for n, text in ask(mysql, "SELECT n, text FROM shop.log"))
    assert folded(changes) == source
    ids = [one.change_id for one in changes]
    assert len(set(ids)) == len(ids), "no two rows have one id, whatever was killed"


def finish(worker: Worker, stack: Stack, mysql: Mysql, prefix: str) -> list[Change]:
    worker.wait(is_done)
    run(mysql, "INSERT INTO shop.small VALUES (-1, 0)")
    worker.wait(
        lambda _: any(
            one.value["after"] == {"id": -1, "v": 0} for one in rows(stack, prefix, "small")
        )
    )
    assert worker.stop() == 0
    return rows(stack, prefix, "log")


def spooled_files(worker: Worker, folder: Path) -> list[str]:
    """The files in a folder that the worker has open."""
    found = []
    for one in Path(f"/proc/{worker.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(one.readlink()))
    return [one for one in found if one.startswith(f"{folder}/")]


@pytest.mark.parametrize(
    "kills",
    [
        KILLS[:2],
        pytest.param(KILLS, marks=pytest.mark.long("the first two of these kills")),
    ],
    ids=["two", "three"],
)
def test_all_rows_enter_together_after_kills_between_their_transactions(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: tuple[str, ...],
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with changing(mysql, "REPLACE INTO shop.small VALUES ({0} MOD 9, {0})", pause=0.5):
        for fault in kills:
            with monkeypatch.context() as faults:
                faults.setenv(VARIABLE, fault)
                with running(wanted, tmp_path) as worker:
                    assert worker.process.wait(120) == -signal.SIGKILL
        with running(wanted, tmp_path) as worker:
            changes = finish(worker, stack, mysql, wanted["prefix"])
    assert_folds_to_the_source(mysql, changes)
    by_number = sorted(changes, key=lambda one: one.seq)
    emptied = [n for n, one in enumerate(by_number) if one.value["op"] == "t"]
    parts = [after - before - 1 for before, after in pairwise((*emptied, len(by_number)))]
    assert parts[-1] == ROWS
    assert len([one for one in parts if 0 < one < ROWS]) >= 2, "removed again after a kill"
    # Nothing of the stream is between them.
    whole = [one.seq for one in by_number[emptied[-1] :]]
    assert whole == list(range(whole[0], whole[0] + ROWS + 1))


@pytest.mark.long(
    "unit/app/worker/destination/snapshot/test_keyless_reading.py reads again what changed"
)
@pytest.mark.parametrize("is_promoted", [False, True], ids=["no key", "promoted key"])
def test_no_row_enters_while_the_table_changes_and_all_do_once_it_does_not(
    stack: Stack, mysql: Mysql, tmp_path: Path, *, is_promoted: bool
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    if is_promoted:
        # Changes have this key, as the server takes it for a primary one.
        run(mysql, "ALTER TABLE shop.log ADD COLUMN u int NOT NULL AUTO_INCREMENT UNIQUE")
    with (
        changing(
            mysql,
            "INSERT INTO shop.log (n, text) VALUES ({0}, 'new')",
            "UPDATE shop.log SET text = 'other' WHERE n = {0} AND text = 'new'",
            "DELETE FROM shop.log WHERE n = {0} - 5 AND text = 'other'",
        ) as stop,
        running(wanted, tmp_path) as worker,
    ):
        status = worker.wait(
            lambda status: (
                "read again" in (status["snapshot"].get("shop.log", {}).get("error") or "")
            )
        )
        assert status["snapshot"]["shop.log"]["state"] == "waiting"
        ops = {one.value["op"] for one in rows(stack, wanted["prefix"], "log")}
        assert ops <= {"c", "u", "d"}, "not even that its rows are gone"
        stop()
        changes = finish(worker, stack, mysql, wanted["prefix"])
        assert worker.log.count("rows are read again: rows of it changed") >= 1
    assert_folds_to_the_source(mysql, changes)
    assert [one.value["op"] for one in changes].count("t") == 1


@pytest.mark.long(
    "unit/connectors/mysql/select/test_spool.py has the file, the tests above the rows"
)
def test_a_kill_while_rows_are_spooled_leaves_no_file_and_the_stream_continues_meanwhile(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    folder = tmp_path / "spools"
    folder.mkdir()
    wanted = wanted_settings(
        stack, mysql, tmp_path, spool_dir=str(folder), rows_per_second=ROWS // 4
    )
    with running(wanted, tmp_path) as worker:
        until(lambda: bool(spooled_files(worker, folder)), late=lambda: worker.log[-3000:])
        assert list(folder.iterdir()) == []
        run(mysql, "INSERT INTO shop.small VALUES (1, 1)")
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "small")))
        assert spooled_files(worker, folder), "it is still being read"
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
    assert list(folder.iterdir()) == []
    assert not has_rows(stack, f"{wanted['prefix']}.shop.log")
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        until(lambda: not spooled_files(worker, folder), late=lambda: worker.log[-3000:])
        changes = finish(worker, stack, mysql, wanted["prefix"])
    assert_folds_to_the_source(mysql, changes)


@pytest.mark.remedy("SnapshotUnsupported")
def test_a_table_that_is_too_large_for_its_spool_is_refused_by_its_size_until_it_may_be_larger(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path, max_spool_bytes=5 << 20)
    with running(wanted, tmp_path) as worker:
        status = worker.wait(
            lambda status: status["snapshot"].get("shop.log", {}).get("state") == "failed"
        )
        error = status["snapshot"]["shop.log"]["error"]
        assert "more than 5 MiB of rows" in error
        assert "snapshot.max_spool_bytes" in error
        run(mysql, "INSERT INTO shop.small VALUES (1, 1)")
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "small")))
        status = worker.wait(
            lambda status: status["snapshot"].get("shop.small", {}).get("state") == "done"
        )
        assert worker.stop() == 0
    assert not has_rows(stack, f"{wanted['prefix']}.shop.log")
    assert json.dumps(status["snapshot"]["shop.small"]["state"]) == '"done"'
    assert "Then start its snapshot again" in error
    wanted["destinations"]["shop"]["snapshot"]["max_spool_bytes"] = 50 << 20
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        done = run_command(tmp_path / "aqueduct.yaml", "snapshot", "start", "shop", "shop.log")
        assert done.returncode == 0, done.stdout + done.stderr
        worker.wait(lambda status: status["snapshot"]["shop.log"]["state"] == "done")
