"""A table whose reading fails at a real server: the trouble is waited out, or named, and others are compared.

A statement is killed once, or each time; the account may read some columns only; an ALTER TABLE waits for a
transaction, and holds up all others, for longer than a validation waits or not.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.worker import running, settings
from tests.integration.validation.test_validate import is_done
from tests.integration.validation.trouble import (
    ACCOUNT,
    READER,
    ROWS,
    allowed,
    altering,
    denied_column,
    killing,
    slow_table,
)

TABLES = ("altered", "denied", "equal", "killed")
HELD_SECONDS = 12
"""Less than a minute, for which a lock is waited for, and longer than one SELECT waits."""


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with an account that may read these tables."""
    plain = [one for one in TABLES if one != "killed"]
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *(f"CREATE TABLE shop.{one} (id int PRIMARY KEY, v int, w int)" for one in plain),
        *(f"INSERT INTO shop.{one} VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)" for one in plain),
        *slow_table("killed"),
        *ACCOUNT,
        *(f"GRANT SELECT ON shop.{one} TO {READER}" for one in TABLES),
        options={"server_id": 9},
    ) as server:
        yield server


def validated(folder: Path, *tables: str, code: int) -> str:
    """What the command prints of these tables."""
    names = [f"shop.{one}" for one in tables]
    done: subprocess.CompletedProcess[str] = run_command(
        folder / "aqueduct.yaml", "validate", "shop", *names
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def not_compared(out: str, table: str) -> str:
    """Why a table is not compared."""
    (found,) = [one for one in out.splitlines() if one.startswith(f"shop.{table}: ")]
    assert "not compared: " in found, out
    return found


@pytest.mark.long("test_one_table.py has other kinds of trouble, and shorter waits")
def test_a_kill_a_column_grant_and_a_pending_alter_are_waited_out_or_named(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, snapshot={"mode": "initial"})
    wanted["destinations"]["shop"].pop("start")
    wanted["destinations"]["shop"]["source"] |= {"user": "reader", "password": "reader"}
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        # Killed once or twice: it is read again, and nothing is missing.
        for most in (1, 2):
            with killing(mysql, "killed", most=most) as kills:
                out = validated(tmp_path, "killed", "equal", code=0)
            assert kills.count == most
            assert f"shop.killed: rows={ROWS} missing=0 extra=0 different=0" in out

        # Killed each time, denied, and held up for longer than a minute.
        run(mysql, "SET SESSION sql_log_bin = 0", "UPDATE shop.equal SET v = 9 WHERE id = 3")
        denied_column(mysql, "denied")
        with killing(mysql, "killed") as kills:
            out = validated(tmp_path, "denied", "equal", "killed", code=1)
        assert kills.count >= 5
        killed = not_compared(out, "killed")
        assert "Query execution was interrupted (error 1317). Find out what kills" in killed
        denied = not_compared(out, "denied")
        assert "SELECT command denied to user 'reader'" in denied
        assert "for column 'w' in table 'denied' (error 1143)" in denied
        assert "Run GRANT SELECT ON `shop`.`denied` TO the account of reader" in denied
        assert "shop.equal: rows=3 missing=0 extra=0 different=1" in out
        assert "not_compared=2" in out
        run(mysql, "SET SESSION sql_log_bin = 0", "UPDATE shop.equal SET v = 3 WHERE id = 3")
        allowed(mysql, "denied")
        with altering(mysql, "altered", "ADD COLUMN x int NOT NULL DEFAULT 7"):
            out = validated(tmp_path, "altered", "denied", "equal", code=3)
            held = not_compared(out, "altered")
            assert "for 60 s other sessions had locked it, or rows of it: Lock wait timeout" in held
            assert "(error 1205). End the session that holds the lock (SHOW PROCESSLIST" in held
            for name in ("denied", "equal"):
                assert f"shop.{name}: rows=3 missing=0 extra=0 different=0" in out

        # Held up for less: the table is compared again, by its new definition.
        held_up(mysql, tmp_path)
        assert worker.destination()["state"] == "RUNNING"
        assert "Traceback" not in worker.log


def held_up(mysql: Mysql, folder: Path) -> None:
    """Validate while a second ALTER TABLE waits for some seconds."""
    begun = threading.Event()

    def hold(stop: threading.Event) -> None:
        with altering(mysql, "altered", "ADD COLUMN y int NOT NULL DEFAULT 8, DROP COLUMN w"):
            begun.set()
            stop.wait(HELD_SECONDS)
        run(mysql, "UPDATE shop.altered SET v = v + 1 WHERE id = 1")

    with beside(hold):
        assert begun.wait(60)
        out = validated(folder, "altered", "equal", code=0)
    assert "shop.altered: rows=3 missing=0 extra=0 different=0" in out
