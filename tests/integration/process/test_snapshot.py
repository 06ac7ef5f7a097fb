"""A destination begins with the rows that exist already, while they are changed."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import WITHOUT_GTIDS, own_server
from tests.harness.sql import ask, connected, run
from tests.harness.topics import Change, rows
from tests.harness.worker import Worker, running, settings

TABLES = (
    "CREATE TABLE shop.many (a int, b varchar(20) CHARACTER SET latin1, v int, PRIMARY KEY (a, b))",
    "CREATE TABLE shop.plain (v int)",
    "CREATE TABLE shop.empty (id int PRIMARY KEY)",
    "INSERT INTO shop.plain VALUES (1), (1), (2)",
)
ROWS = 20_000
LETTERS = "aäbcdéfgöhjk"


@pytest.fixture
def filled(mysql: Mysql) -> Mysql:
    """Tables with a key of two columns, without a key, and without rows."""
    fill(mysql)
    return mysql


def fill(mysql: Mysql) -> None:
    """Create them."""
    run(mysql, *TABLES)
    with connected(mysql, autocommit=False) as cursor:
        cursor.executemany(
            # With a literal among them PyMySQL would send each row by itself.
            "INSERT INTO shop.many VALUES (%s, %s, %s)",
            [(a, b, 0) for a in range(ROWS // 10) for b in LETTERS[:10]],
        )
        cursor.execute("COMMIT")


@contextlib.contextmanager
def changing(mysql: Mysql, *, seed: int, pause: float = 0.002) -> Iterator[Callable[[], None]]:
    """The table is changed until the function is called, which returns after the last change.

    Each value is new, also beside writers of other seeds; of two that wait for each other one gives up.
    ``pause``: seconds between two changes.
    """

    def change(stop: threading.Event) -> None:
        chance, number = random.Random(seed), 1_000_000 * seed
        with connected(mysql) as cursor:
            while not stop.wait(pause):
                try:
                    change_once(cursor, chance, number)
                except pymysql.err.OperationalError as error:
                    if error.args[0] != ER.LOCK_DEADLOCK:
                        raise
                number += 1

    def change_once(cursor: Any, chance: random.Random, number: int) -> None:
        a, b = chance.randrange(ROWS // 10 + 100), chance.choice(LETTERS)
        what = chance.random()
        if what < 0.5:
            cursor.execute("UPDATE shop.many SET v = %s WHERE a = %s", (number, a))
        elif what < 0.7:
            cursor.execute("DELETE FROM shop.many WHERE a = %s AND b = %s", (a, b))
        elif what < 0.8:
            cursor.execute("UPDATE IGNORE shop.many SET a = a + 5000 WHERE a = %s", (a,))
        else:
            cursor.execute("REPLACE INTO shop.many (a, b, v) VALUES (%s, %s, %s)", (a, b, number))

    with beside(change) as end:
        yield end


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path, **more: Any) -> dict[str, Any]:
    wanted = settings(stack, mysql, folder, snapshot={"mode": "initial"}, **more)
    wanted["destinations"]["shop"].pop("start")
    return wanted


def is_done(status: dict[str, Any]) -> bool:
    states = {one["state"] for one in status["snapshot"].values()}
    return states == {"done"}


def finish(worker: Worker, stack: Stack, mysql: Mysql, prefix: str) -> list[Change]:
    """Wait until all is published, and return the changes of the table with a key of two columns."""
    worker.wait(is_done)
    run(mysql, "INSERT INTO shop.empty VALUES (9)")
    worker.wait(lambda _: bool(rows(stack, prefix, "empty")))
    assert worker.stop() == 0
    return rows(stack, prefix, "many")


def assert_folds_to_the_source(mysql: Mysql, changes: list[Change]) -> None:
    """Each key's last record is the source's row, and a row that is read never follows a different image."""
    folded: dict[str, Any] = {}
    gone: set[str] = set()
    for change in changes:
        assert change.key is not None
        key, op = change.key.decode(), change.value["op"]
        if op == "r" and key in folded:
            # A column may have been added meanwhile.
            assert folded[key].items() <= change.value["after"].items()
        elif op == "r":
            assert key not in gone, change.value
        if op == "d":
            folded.pop(key, None)
            gone.add(key)
        else:
            folded[key] = change.value["after"]
    source = {(a, b): v for a, b, v in ask(mysql, "SELECT a, b, v FROM shop.many")}
    assert {(one["a"], one["b"]): one["v"] for one in folded.values()} == source
    numbers = [change.seq for change in changes]
    assert len(set(numbers)) == len(numbers)


def test_existing_rows_and_changes_fold_to_the_source(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with changing(filled, seed=7) as stop, running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        stop()
        changes = finish(worker, stack, filled, wanted["prefix"])
        assert "the snapshot has ended: 4 table(s) done" in worker.log
    assert_folds_to_the_source(filled, changes)
    assert {one.value["op"] for one in changes} == {"r", "u", "c", "d"}
    read = [one.value["source"] for one in changes if one.value["op"] == "r"]
    assert {(one["snapshot"], one["gtid"]) for one in read} == {("incremental", None)}
    plain = rows(stack, wanted["prefix"], "plain")
    assert [(one.value["op"], (one.value["after"] or {}).get("v")) for one in plain] == [
        ("t", None), ("r", 1), ("r", 1), ("r", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("commit.before", marks=pytest.mark.long("kills after a commit")),
        "commit.after",
        pytest.param("produce.rows", marks=pytest.mark.long("kills after a commit")),
    ],
)
def test_after_kills_it_resumes_and_publishes_no_row_twice(
    stack: Stack, filled: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with changing(filled, seed=11) as stop:
        for passes in (4, 6):
            with monkeypatch.context() as faults:
                faults.setenv(VARIABLE, f"{fault}=kill@{passes}")
                with running(wanted, tmp_path) as worker:
                    assert worker.process.wait(60) == -signal.SIGKILL
        with running(wanted, tmp_path) as worker:
            worker.wait(is_done)
            stop()
            changes = finish(worker, stack, filled, wanted["prefix"])
    assert_folds_to_the_source(filled, changes)
    read = Counter(one.key for one in changes if one.value["op"] == "r")
    assert set(read.values()) == {1}
    plain = [one.value["after"] for one in rows(stack, wanted["prefix"], "plain")]
    assert [one and one["v"] for one in plain] == [None, 1, 1, 2]


def test_statements_on_a_table_while_it_is_read(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with changing(filled, seed=13) as stop, running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.many", {}).get("rows")))
        run(
            filled,
            "ALTER TABLE shop.many ADD COLUMN w int DEFAULT 5",
            "ALTER TABLE shop.many MODIFY b varchar(30) COLLATE utf8mb4_bin",
            "DROP TABLE shop.plain",
        )
        worker.wait(lambda status: status["snapshot"]["shop.many"]["state"] == "done")
        stop()
        run(filled, "INSERT INTO shop.empty VALUES (9)")
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "empty")))
        assert worker.stop() == 0
    assert_folds_to_the_source(filled, rows(stack, wanted["prefix"], "many"))


def test_labels_that_the_server_prints_with_question_marks_are_those_of_rows(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    labels = "e ENUM('good?', '😀', 'so?'), s SET('?', '🎉', 'x')"
    run(
        mysql,
        f"CREATE TABLE shop.moods (id INT PRIMARY KEY, {labels})",
        f"CREATE TABLE shop.keyless ({labels})",
        "INSERT INTO shop.moods VALUES (1, 'good?', '?,x'), (2, '😀', '🎉')",
        "INSERT INTO shop.keyless VALUES ('😀', '?')",
    )
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        # From here on nothing has the labels of rows in the stream.
        run(mysql, "SET GLOBAL binlog_row_metadata = 'MINIMAL'")
        run(
            mysql,
            "INSERT INTO shop.moods VALUES (3, 'so?', '')",
            "INSERT INTO shop.t VALUES (1, 1)",
        )
        status = worker.wait(lambda status: bool(status["set_aside"]))
        ((table, why),) = ((one["table"], one["why"]) for one in status["set_aside"])
        assert (table, "label of column 'e'" in why) == ("shop.moods", True)
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "t")))
        statement = tmp_path / "moods.sql"
        statement.write_text(f"CREATE TABLE moods (id INT PRIMARY KEY, {labels})")
        resolve = ("schema", "resolve", "shop", "shop.moods", "--definition", str(statement))
        done = run_command(tmp_path / "aqueduct.yaml", *resolve)
        assert done.returncode == 0, (done.stdout, done.stderr)
        run(mysql, "INSERT INTO shop.moods VALUES (4, '😀', '🎉')")
        worker.wait(lambda _: len(rows(stack, wanted["prefix"], "moods")) == 4)
        assert worker.stop() == 0
    found = [one.value["after"] for one in rows(stack, wanted["prefix"], "moods")]
    assert [(one["id"], one["e"], one["s"]) for one in found] == [
        (1, "good?", "?,x"), (2, "😀", "🎉"), (3, "so?", ""), (4, "😀", "🎉"),
    ]  # fmt: skip
    _, keyless = (one.value["after"] for one in rows(stack, wanted["prefix"], "keyless"))
    assert (keyless["e"], keyless["s"]) == ("😀", "?")


def test_a_table_that_is_renamed_meanwhile_and_one_that_gets_its_name(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    run(filled, "CREATE TABLE shop.other (a int PRIMARY KEY, b int)")
    run(filled, "INSERT INTO shop.other VALUES (1, 1), (2, 2), (100000, 3)")
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["snapshot"] |= {"rows_per_second": 4_000}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.many", {}).get("rows")))
        run(
            filled,
            "RENAME TABLE shop.many TO shop.moved, shop.other TO shop.many",
            "UPDATE shop.moved SET v = 5 WHERE a < 10",
        )
        worker.wait(lambda status: status["snapshot"].get("shop.moved", {}).get("state") == "done")
        worker.wait(lambda status: status["snapshot"]["shop.many"]["state"] == "done")
        assert worker.stop() == 0
    moved = {one.key: one.value["after"]["v"] for one in rows(stack, wanted["prefix"], "moved")}
    assert sorted(moved.values()) == sorted(v for (v,) in ask(filled, "SELECT v FROM shop.moved"))
    new = [one.value["after"] for one in rows(stack, wanted["prefix"], "many")]
    assert [one["a"] for one in new if "v" not in one] == [1, 2, 100000], "from the first row on"


def test_rows_of_a_table_that_is_emptied_meanwhile_do_not_come_back(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, filled, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.many", {}).get("rows")))
        run(filled, "TRUNCATE TABLE shop.many", "INSERT INTO shop.many VALUES (1, 'a', 1)")
        changes = finish(worker, stack, filled, wanted["prefix"])
    emptied = next(n for n, one in enumerate(changes) if one.value["op"] == "t")
    assert {one.value["after"]["b"] for one in changes[emptied + 1 :]} == {"a"}


@pytest.mark.long(
    "unit/app/worker/destination/snapshot/test_table_reading.py shows what cannot be read"
)
def test_a_missing_grant_is_shown_and_the_stream_continues(
    stack: Stack, filled: Mysql, tmp_path: Path
) -> None:
    run(
        filled,
        "CREATE USER few IDENTIFIED BY 'few'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO few",
        "GRANT INSERT ON shop.* TO few",
        "GRANT SELECT ON shop.plain TO few",
    )
    wanted = wanted_settings(stack, filled, tmp_path)
    wanted["destinations"]["shop"]["source"] |= {"user": "few", "password": "few"}
    with running(wanted, tmp_path) as worker:
        status = worker.wait(
            lambda status: bool(status["snapshot"].get("shop.many", {}).get("error"))
        )
        assert "SELECT command denied to user" in status["snapshot"]["shop.many"]["error"]
        run(filled, "INSERT INTO shop.empty VALUES (8)")
        worker.wait(lambda _: bool(rows(stack, wanted["prefix"], "empty")))
        assert worker.destination()["state"] == "RUNNING"
        run(filled, "GRANT SELECT ON shop.* TO few")
        worker.wait(is_done)
        assert worker.stop() == 0
    assert_folds_to_the_source(filled, rows(stack, wanted["prefix"], "many"))


def test_a_server_at_which_it_cannot_be_exact_is_refused_by_name(
    stack: Stack, tmp_path: Path
) -> None:
    name = f"5.6{WITHOUT_GTIDS}"
    with (
        own_server(name, tmp_path / "server", "CREATE DATABASE shop") as mysql,
        running(wanted_settings(stack, mysql, tmp_path), tmp_path) as worker,
    ):
        status = worker.wait(lambda status: status["state"] == "FAILED")
        assert status["error"].startswith("SnapshotUnsupported: ")
        assert (
            "MySQL before 5.7.6 without GTIDs does not show what a SELECT sees" in status["error"]
        )
        assert f"source=127.0.0.1:{mysql.port}" in status["error"]
        assert "snapshot.mode to never" in status["error"]
        assert "Traceback" not in worker.log


def test_a_start_position_beside_it_is_refused(stack: Stack, mysql: Mysql, tmp_path: Path) -> None:
    wanted = settings(stack, mysql, tmp_path, snapshot={"mode": "initial"})
    with running(wanted, tmp_path) as worker:
        assert worker.process.wait(60) == 78
        assert "snapshot.mode is initial" in worker.log
