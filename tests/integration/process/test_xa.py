"""A real worker and XA transactions: published once, at commit, even if the worker is killed before."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import checks, topics
from demo.topics import Layout
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.forked import run_command
from tests.harness.servers import GTIDS_OFF, own_mysql
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.worker import Worker, running, settings

LARGE = 4000
"""Rows that are more than is kept of a prepared transaction."""


_NO_GTIDS = pytest.mark.long("worker/test_xa has each form without GTIDs")


@pytest.fixture(params=["gtids", pytest.param("no gtids", marks=_NO_GTIDS)])
def mysql(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, once with GTIDs and once without."""
    options: dict[str, str | int] = {"server_id": 19}
    if request.param != "gtids":
        options |= GTIDS_OFF
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, pad text)",
        options=options,
    ) as server:
        yield server


def insert(first: int, count: int) -> str:
    rows = ", ".join(f"({n}, REPEAT('{n:06}', 50))" for n in range(first, first + count))
    return f"INSERT INTO shop.t VALUES {rows}"


def prepared(mysql: Mysql, name: str, *statements: str) -> None:
    run(mysql, f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'")


def killed(worker: Worker) -> None:
    os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.wait()


def published(stack: Stack, prefix: str) -> list[checks.Record]:
    layout = Layout(Routes(prefix=prefix), "shop")
    names = [layout.topic_of("t"), layout.ddl_topic]
    contents = asyncio.run(topics.read(stack.kafka, names, mark=b"\0never\0"))
    return contents.records


def read_ids(stack: Stack, prefix: str) -> list[int]:
    """The keys of all rows, as a consumer that waits for commits gets them."""
    return sorted(change.value["after"]["id"] for change in rows(stack, prefix, "t"))


def assert_once(stack: Stack, wanted: dict[str, Any], ids: list[int]) -> None:
    assert read_ids(stack, wanted["prefix"]) == ids
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


def test_a_worker_killed_between_prepare_and_commit_publishes_the_rows_once(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    prepared(mysql, "small", insert(1, 2))
    prepared(mysql, "large", insert(10_000, LARGE))
    prepared(mysql, "never", insert(50_000, 3))
    run(mysql, insert(100, 1))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 1)
        killed(worker)
    run(mysql, insert(101, 1), "XA COMMIT 'small'", insert(102, 1), "FLUSH BINARY LOGS")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 4)
        killed(worker)
    run(mysql, "XA COMMIT 'large'", "XA ROLLBACK 'never'", insert(103, 1))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == LARGE + 1)
        assert "Traceback" not in worker.log
    ids = [1, 2, 100, 101, 102, 103, *range(10_000, 10_000 + LARGE)]
    assert_once(stack, wanted, ids)


@pytest.mark.long("test_large_transaction has the parts")
def test_a_large_one_is_published_in_parts_and_continues_after_a_kill(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path) | {"publish": {"max_bytes": 65536, "interval_ms": 1}}
    prepared(mysql, "large", insert(0, 10 * LARGE))
    run(mysql, "XA COMMIT 'large'", insert(10 * LARGE, 1))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] > 0)
        killed(worker)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: (status["cursor"] or {}).get("seq") == 10 * LARGE + 3)
        assert "Traceback" not in worker.log
    assert_once(stack, wanted, list(range(10 * LARGE + 1)))


@pytest.mark.remedy("PreparedRowsGone")
def test_rows_that_cannot_be_read_stop_the_destination_until_their_transaction_is_skipped(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    prepared(mysql, "stranger", insert(1, 1))
    run(mysql, insert(2, 1))
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, insert(3, 1), "XA COMMIT 'stranger'", insert(4, 1))
        status = worker.wait(lambda status: status["state"] == "FAILED")
        assert "PreparedRowsGone" in status["error"]
        assert "xid=" in status["error"]
        assert status["rows"] == 1
        (command,) = re.findall(r"python -m app (cursor skip [^`]+)", status["error"])
        gtid = re.search(r"gtid=([^,\]]+)", status["error"])
        start = re.search(r"coordinates=([^:]+):(\d+)", status["error"])
        assert start, status["error"]
        named = f"--gtid {gtid[1]}" if gtid else f"--file {start[1]} --pos {start[2]}"
        words = command.replace("--gtid GTID", named).split()
        done = run_command(tmp_path / "aqueduct.yaml", *words, "--yes-lose-changes")
        assert done.returncode == 0, done.stderr
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 2)
    assert_once(stack, wanted, [3, 4])
