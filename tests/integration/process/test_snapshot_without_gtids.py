"""A destination begins with the rows that exist already, of a MySQL without GTIDs and of MariaDB.

Transactions of such a MySQL are in its binlog for a while before they are visible, so that a SELECT that does
not wait for them returns older rows than the stream.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pymysql
import pytest

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.servers import WITHOUT_GTIDS, own_server
from tests.harness.sql import ask, connected, run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import running
from tests.integration.process.test_snapshot import (
    ROWS,
    assert_folds_to_the_source,
    changing,
    fill,
    finish,
    is_done,
    wanted_settings,
)

NEWEST, MARIADB = f"9.7{WITHOUT_GTIDS}", "mariadb-11.8"
LONG = pytest.mark.long("the newest MySQL without GTIDs")
DELAY = "binlog_group_commit_sync_delay"
SLOW, LATE = {DELAY: 20_000}, {DELAY: 1_000_000}
"""Microseconds from the binlog to what is visible; LATE is longer than it takes to publish a change."""
SEEDS, MANY = range(1, 4), range(1, 9)
"""Of the writers."""
KILLS = ("commit.before", "commit.after")


@pytest.fixture
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mysql]:
    """A server of its own with tables that have rows."""
    name: str = request.param
    late = "test_a_select" in request.node.name
    options = {} if name.startswith("mariadb") else LATE if late else SLOW
    with own_server(name, tmp_path / "server", "CREATE DATABASE shop", options=options) as server:
        fill(server)
        yield server


def is_mariadb(server: Mysql) -> bool:
    """Whether it is one."""
    return "MariaDB" in str(ask(server, "SELECT VERSION()"))


@contextmanager
def undoing(mariadb: Mysql) -> Iterator[Callable[[], None]]:
    """Until the function is called, rows are changed by transactions that are undone.

    MariaDB writes them to its binlog beside what cannot be undone.
    """
    forced = "DROP TEMPORARY TABLE IF EXISTS shop.nothing"

    def change(stop: threading.Event) -> None:
        chance = random.Random(5)
        with connected(mariadb) as cursor:
            while not stop.wait(0.005):
                some, others = (
                    f"WHERE a BETWEEN {at} AND {at + 40}"
                    for at in sorted(chance.sample(range(0, ROWS // 10, 50), 2))
                )
                with contextlib.suppress(pymysql.err.OperationalError):  # a deadlock
                    for statement in (
                        "BEGIN",
                        "SAVEPOINT s",
                        f"UPDATE shop.many SET v = -1 {some}",
                        forced,
                        "ROLLBACK TO s",
                        f"DELETE FROM shop.many {others}",
                        "ROLLBACK",
                    ):
                        cursor.execute(statement)

    with beside(change) as end:
        yield end


@pytest.mark.parametrize(
    "filled",
    [
        NEWEST,
        pytest.param(f"5.7{WITHOUT_GTIDS}", marks=LONG),
        "mariadb-10.11",
        pytest.param(MARIADB, marks=LONG),
    ],
    indirect=True,
)
def test_existing_rows_and_changes_fold_to_the_source(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with ExitStack() as block:
        stops = [block.enter_context(changing(filled, seed=n)) for n in SEEDS]
        if is_mariadb(filled):
            stops.append(block.enter_context(undoing(filled)))
        worker = block.enter_context(running(wanted, tmp_path))
        worker.wait(lambda status: bool(status["snapshot"].get("shop.many", {}).get("rows")))
        run(filled, "FLUSH BINARY LOGS", "ALTER TABLE shop.many ADD COLUMN w int DEFAULT 5")
        worker.wait(is_done)
        for stop in stops:
            stop()
        changes = finish(worker, stack, filled, wanted["prefix"])
        assert "Traceback" not in worker.log
    assert_folds_to_the_source(filled, changes)
    assert {one.value["op"] for one in changes} == {"r", "u", "c", "d"}
    plain = rows(stack, wanted["prefix"], "plain")
    assert [(one.value["op"], (one.value["after"] or {}).get("v")) for one in plain] == [
        ("t", None), ("r", 1), ("r", 1), ("r", 2),
    ]  # fmt: skip


@pytest.mark.long("snapshot/test_read_views has a SELECT that waits")
@pytest.mark.parametrize("filled", [NEWEST], indirect=True)
def test_a_select_waits_for_changes_that_were_published_before_others_see_them(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with ExitStack() as block:
        stops = [block.enter_context(changing(filled, seed=n)) for n in MANY]
        worker = block.enter_context(running(wanted, tmp_path))
        worker.wait(is_done, seconds=300)
        for stop in stops:
            stop()
        changes = finish(worker, stack, filled, wanted["prefix"])
    assert_folds_to_the_source(filled, changes)


@pytest.mark.parametrize(
    ("filled", "kills"),
    [
        (NEWEST, KILLS),
        (MARIADB, KILLS),
    ],
    indirect=["filled"],
)
@pytest.mark.long("test_snapshot.py has kills with GTIDs")
def test_after_kills_it_resumes_and_publishes_no_row_twice(
    stack: Stack,
    filled: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: tuple[str, ...],
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with ExitStack() as block:
        stops = [block.enter_context(changing(filled, seed=n)) for n in SEEDS]
        if is_mariadb(filled):
            stops.append(block.enter_context(undoing(filled)))
        for fault in kills:
            with monkeypatch.context() as faults:
                faults.setenv(VARIABLE, f"{fault}=kill@5")
                with running(wanted, tmp_path) as worker:
                    assert worker.process.wait(60) == -signal.SIGKILL
        with running(wanted, tmp_path) as worker:
            worker.wait(is_done)
            for stop in stops:
                stop()
            changes = finish(worker, stack, filled, wanted["prefix"])
    assert_folds_to_the_source(filled, changes)
    read = Counter(one.key for one in changes if one.value["op"] == "r")
    assert set(read.values()) == {1}
    plain = [one.value["after"] for one in rows(stack, wanted["prefix"], "plain")]
    assert [one and one["v"] for one in plain] == [None, 1, 1, 2]


def purged(mysql: Mysql) -> list[str]:
    """The files that are left; MariaDB keeps some for a moment."""
    files = [name for name, *_ in ask(mysql, "SHOW BINARY LOGS")]
    run(mysql, f"PURGE BINARY LOGS TO '{files[-1]}'")
    return [name for name, *_ in ask(mysql, "SHOW BINARY LOGS")]


@pytest.mark.long("test_snapshot_commands.py has it with GTIDs, in two ways")
@pytest.mark.parametrize("filled", [NEWEST, MARIADB], indirect=True)
def test_all_rows_are_replaced_after_changes_were_purged_unread(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["snapshot"]["mode"] = "when_needed"
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        assert worker.stop() == 0
    run(
        filled,
        "UPDATE shop.many SET v = 7 WHERE a < 5",
        "DELETE FROM shop.many WHERE a = 6",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
    )
    if ask(filled, "SHOW VARIABLES LIKE 'slave_connections_needed_for_purge'"):
        run(filled, "SET GLOBAL slave_connections_needed_for_purge = 0")
    until(lambda: len(purged(filled)) == 1)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status.get("snapshot")) and is_done(status))
        changes = finish(worker, stack, filled, wanted["prefix"])
        assert "all existing rows are published again" in worker.log
    emptied = next(n for n, one in enumerate(changes) if one.value["op"] == "t")
    assert_folds_to_the_source(filled, changes[emptied + 1 :])
