"""The trouble of one table at the source: it is named, and all others are compared.

A table is locked, may not be read, is damaged, fails as it is read, or is dropped while it is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.operator.validate import Validation, validate
from app.operator.validation import looks
from app.operator.validation.table_result import TableResult
from app.settings.model import load
from connectors.errors import SourceLost, TableUnreadable
from connectors.mysql.select import chunk_reader
from connectors.mysql.select.load_limits import LoadLimits
from connectors.mysql.select.table_checks import check_readable
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings
from tests.integration.validation.shop import unlogged
from tests.integration.validation.test_validate import is_done
from tests.integration.worker.source import address_of
from wire.validation import Kind

TABLES = ("broken", "crashed", "denied", "differs", "dropped", "equal", "locked")
REASONS = {
    "broken": ("JSON", "(error 3141)", "Run a SELECT of all its columns"),
    "crashed": ("crashed", "(error 1", "Run CHECK TABLE"),
    "denied": ("SELECT command denied", "(error 1142)", "GRANT SELECT ON `shop`.`denied` TO"),
    "locked": ("for 1 s other sessions had locked it", "(error 1205)", "SHOW PROCESSLIST"),
}
"""Parts of the reason why a table is not compared."""
READER = "'reader'@'%'"
RATE = 100
"""Rows in a second, so that a table is dropped after some looks at it."""


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, with an account that may read single tables."""
    made = [f"CREATE TABLE shop.{one} (id int PRIMARY KEY, v varchar(40))" for one in TABLES]
    rows = [f"INSERT INTO shop.{one} VALUES (1, 'a'), (2, 'b'), (3, 'c')" for one in TABLES]
    grants = [f"GRANT SELECT ON shop.{one} TO {READER}" for one in TABLES]
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        *made,
        "ALTER TABLE shop.crashed ENGINE = MyISAM",
        *rows,
        f"CREATE USER {READER} IDENTIFIED BY 'reader'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {READER}",
        *grants,
        options={"server_id": 9},
    ) as server:
        many = ", ".join(f"({10 + n}, 'x')" for n in range(9 * RATE))
        run(server, f"INSERT INTO shop.dropped VALUES {many}")
        yield server


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A validation in this process waits for seconds where it would wait for a minute."""
    monkeypatch.setattr(chunk_reader, "VISIBLE_SECONDS", 1.0)
    monkeypatch.setattr(looks, "_TRIED_SECONDS", 1.0)
    monkeypatch.setattr(looks, "_AGAIN_SECONDS", 0.2)
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))


def compared(
    *tables: str, progress: Callable[[TableResult], object], samples: int | None = None
) -> Validation:
    return asyncio.run(
        validate(
            load(),
            "shop",
            tables=[("shop", one) for one in tables],
            samples=samples,
            limits=LoadLimits(rows_per_second=RATE),
            unreachable=print,
            progress=progress,
        )
    )


@pytest.mark.usefixtures("at_once")
def test_the_trouble_of_single_tables_is_named_and_the_others_are_compared(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, snapshot={"mode": "initial"})
    wanted["destinations"]["shop"].pop("start")
    wanted["destinations"]["shop"]["source"] |= {"user": "reader", "password": "reader"}
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        spoil(mysql)
        dropped = list[int]()

        def drop(result: TableResult) -> None:
            if result.name == ("shop", "dropped") and not dropped:
                dropped.append(result.rows)
                run(mysql, "DROP TABLE shop.dropped")

        with connected(mysql) as cursor:
            cursor.execute("LOCK TABLES shop.locked WRITE")
            found = compared(progress=drop)
        assert 0 < dropped[0] < 9 * RATE, "it was dropped while it was compared"
        assert_found(found)
        assert_others_are_repaired(tmp_path)
        found = compared("denied", "equal", "differs", "locked", progress=print, samples=1)
        assert [one.is_complete for one in found.tables] == [False, True, True, True]
        assert "(error 1142)" in (found.tables[0].not_compared or "")
        # A repair's request meets the same error, which is the table's.
        reader = address_of(mysql, user="reader", password="reader")
        with pytest.raises(TableUnreadable, match=r"table=shop\.denied"):
            check_readable(reader, [("shop", "equal"), ("shop", "denied")], "id = 1")
        assert worker.destination()["state"] == "RUNNING"

        # What ends them all is one error.
        with pytest.raises(SourceLost):
            compared("equal", "locked", progress=lambda _: mysql.kill())


def spoil(mysql: Mysql) -> None:
    unlogged(
        mysql,
        f"REVOKE SELECT ON shop.denied FROM {READER}",
        "FLUSH TABLES shop.crashed",
        "UPDATE shop.differs SET v = 'other' WHERE id = 2",
    )
    index = mysql.data / "shop" / "crashed.MYI"
    index.write_bytes(b"\0" * index.stat().st_size)
    # Its rows are not tried: the SELECT finds what is no JSON.
    run(mysql, "ALTER TABLE shop.broken ADD COLUMN made json AS (CAST(v AS json)) VIRTUAL")


def assert_found(found: Validation) -> None:
    results: dict[str, TableResult] = {one.name[1]: one for one in found.tables}
    assert list(results) == list(TABLES)
    reasons = {name: one.not_compared for name, one in results.items()}
    assert reasons.pop("equal") is reasons.pop("differs") is None
    assert results["equal"].is_complete
    assert results["equal"].rows == 3
    assert results["differs"].counts == {Kind.DIFFERENT: 1}
    for name, parts in REASONS.items():
        reason = reasons.pop(name) or ""
        assert [one for one in parts if one not in reason] == [], (name, reason)
    # By the history, or by the server's error while the worker has not published it.
    dropped = reasons.pop("dropped") or ""
    assert "does not exist any more" in dropped or "shop.dropped' doesn't exist" in dropped
    assert not reasons
    assert (found.differences, found.is_complete) == (1, False)


def assert_others_are_repaired(folder: Path) -> None:
    words = "validate", "shop", "shop.differs", "shop.denied", "--repair"
    done = run_command(folder / "aqueduct.yaml", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "shop.denied: not compared: SELECT command denied" in done.stdout
    assert "shop.differs: 1 row(s) published again" in done.stderr
