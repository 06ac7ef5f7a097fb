"""`python -m app validate` on a server, Kafka and a worker, while rows are written all the time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.operator.validate import conditions, validate
from app.settings.model import load
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.wait import until
from tests.harness.worker import Worker, running
from tests.integration.process.test_truncates import caught_up
from tests.integration.validation.shop import (
    CALM,
    KINDS,
    QUIET,
    changing,
    filled,
    unlogged,
    wanted_settings,
)

KEYED = ("shop.many", "shop.kinds", "shop.customers", "trade.orders", "shop.empty")
"""All that can be compared; one of them by its logical name."""
Results = dict[str, dict[str, Any]]


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, options={"server_id": 9}) as server:
        filled(server)
        yield server


def validated(folder: Path, *words: str, code: int) -> Results:
    """The results of each table."""
    done = run_command(folder / "aqueduct.yaml", "validate", "shop", *words, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return {one["table"]: one for one in json.loads(done.stdout)["tables"]}


def findings(one: dict[str, Any]) -> list[tuple[str, Any, list[str]]]:
    found = [(row["kind"], json.loads(row["key"]), row["columns"]) for row in one["findings"]]
    return sorted(found, key=str)


def is_done(status: dict[str, Any]) -> bool:
    return {one["state"] for one in status["snapshot"].values()} == {"done"}


def assert_equal(folder: Path) -> Results:
    """Every table that can be compared is equal."""
    results = validated(folder, *KEYED, code=0)
    for one in results.values():
        counts = [one[kind] for kind in ("missing", "extra", "different")]
        assert (counts, one["not_judged"], one["notes"]) == ([0, 0, 0], {}, []), one
    return results


def test_planted_differences_are_found_while_other_rows_change(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker, changing(mysql, seed=5):
        worker.wait(is_done)
        results = assert_equal(tmp_path)
        assert results["shop.many"]["rows"] > 4_000
        assert [results[f"shop.orders_{n}"]["topic"] for n in (1, 2)] == [
            f"{wanted['prefix']}.trade"
        ] * 2
        plant(mysql)
        results = validated(tmp_path, code=1)
        assert_found(results)
        assert_can_be_requested(mysql, tmp_path)
        # None of it is found where only others are compared.
        assert list(validated(tmp_path, "shop.empty", code=0)) == ["shop.empty"]
        assert_text(tmp_path)
        # What the binlog has afterwards repairs the topics.
        run(
            mysql,
            *CALM,
            *(
                f"UPDATE shop.kinds SET {name} = NULL WHERE id = {n}"
                for n, name in enumerate(KINDS)
            ),
            f"DELETE FROM shop.many WHERE b = 'é' AND a = {QUIET + 1}",
            f"REPLACE INTO shop.many (b, a) VALUES ('Ö z', {QUIET + 2}), ('c', {QUIET})",
            f"DELETE FROM shop.many WHERE b = 'c' AND a = {QUIET}",
            "UPDATE shop.customers SET email = NULL, card = NULL",
            "REPLACE INTO shop.orders_2 VALUES (1, 1), (2, 5)",
            "DELETE FROM shop.orders_2 WHERE id IN (1, 9)",
        )
        assert_equal(tmp_path)
        assert worker.destination()["state"] == "RUNNING"


def plant(mysql: Mysql) -> None:
    """Change rows without the binlog."""
    unlogged(
        mysql,
        *(
            f"UPDATE shop.kinds SET {name} = {kind[2]} WHERE id = {n}"
            for n, (name, kind) in enumerate(KINDS.items())
        ),
        f"DELETE FROM shop.many WHERE b = 'c' AND a = {QUIET}",
        f"UPDATE shop.many SET v = 7, note = NULL WHERE b = 'é' AND a = {QUIET + 1}",
        f"INSERT INTO shop.many VALUES ('Ö z', {QUIET + 2}, 1, '')",
        # What the rules hide does not differ: the end of a card, a dropped column, a filtered row.
        "UPDATE shop.customers SET card = 'xxother', gone = 'other' WHERE id = 1",
        "UPDATE shop.customers SET email = 'other' WHERE id IN (2, 3)",
        "UPDATE shop.customers SET plain = 'other' WHERE id = 4",
        "DELETE FROM shop.orders_2 WHERE id = 1",
        "UPDATE shop.orders_2 SET x = 0 WHERE id = 2",
        "INSERT INTO shop.orders_2 VALUES (9, 9)",
    )


def assert_found(results: Results) -> None:
    assert findings(results["shop.kinds"]) == sorted(
        (("different", {"id": n}, [name]) for n, name in enumerate(KINDS)), key=str
    )
    assert findings(results["shop.many"]) == [
        ("different", {"b": "é", "a": QUIET + 1}, ["note", "v"]),
        ("extra", {"b": "c", "a": QUIET}, []),
        ("missing", {"b": "Ö z", "a": QUIET + 2}, []),
    ]
    assert findings(results["shop.customers"]) == [
        ("different", {"id": 2}, ["email"]),
        ("different", {"id": 4}, ["shown"]),
    ]
    shard = ["shop", "shop", "orders_2"]
    assert findings(results["shop.orders_2"]) == [
        ("different", {"__shard": shard, "id": 2}, ["x"]),
        ("extra", {"__shard": shard, "id": 1}, []),
        ("missing", {"__shard": shard, "id": 9}, []),
    ]
    assert findings(results["shop.orders_1"]) == findings(results["shop.empty"]) == []
    assert {name: one["not_compared"] for name, one in results.items() if one["not_compared"]} == {
        "shop.plain": "its records have no key that identifies rows",
        "shop.inserts": "only these operations are published of it: insert",
    }


def assert_can_be_requested(mysql: Mysql, folder: Path) -> None:
    """The server finds exactly the rows that are missing or different by conditions on their keys."""
    tables = ("shop", "many"), ("shop", "kinds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AQUEDUCT_CONFIG", str(folder / "aqueduct.yaml"))
        kinds, many = asyncio.run(
            validate(load(), "shop", tables=tables, unreachable=print, busy=print)
        ).tables
    for table, rows in (
        (many, {("é", QUIET + 1), ("Ö z", QUIET + 2)}),
        (kinds, {(n,) for n in range(len(KINDS))}),
    ):
        columns = ", ".join(table.key)
        found = set[tuple[Any, ...]]()
        for condition in conditions(table.key, table.repairable, most=7):
            name = ".".join(table.name)
            found |= set(ask(mysql, f"SELECT {columns} FROM {name} WHERE {condition}"))
        assert found == rows


def assert_text(folder: Path) -> None:
    done = run_command(folder / "aqueduct.yaml", "validate", "shop", "shop.many", "--limit", "1")
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0].endswith("missing=1 extra=1 different=1")
    assert lines[2] == "  … and 2 more"
    assert lines[-1].endswith("differences=3")


def test_statements_and_a_quiet_server(stack: Stack, mysql: Mysql, tmp_path: Path) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        # The end of the binlog is the head of a file without transactions.
        run(mysql, "FLUSH BINARY LOGS")
        assert_equal(tmp_path)
        with changing(mysql, seed=6):
            run(
                mysql,
                "ALTER TABLE shop.many ADD COLUMN w int DEFAULT 5, RENAME COLUMN note TO noted",
                "ALTER TABLE shop.customers DROP COLUMN gone",
                "ALTER TABLE shop.kinds MODIFY tiny int, ADD COLUMN made varchar(40) DEFAULT (id)",
                "TRUNCATE TABLE shop.orders_2",
            )
            found = validated(tmp_path, code=3)
        assert all(not one["findings"] for one in found.values()), found
        assert found["shop.many"]["rows"] > 4_000
        assert found["shop.orders_2"]["rows"] == 0
        # Rows from before have in the new column what only the server knows.
        assert found["shop.kinds"]["not_compared"] is None, found["shop.kinds"]
        assert found["shop.kinds"]["not_judged"] == {
            "rows from before column made was added": len(KINDS) + 3
        }
        # A rule names a column that is gone.
        assert "gone" in (found["shop.customers"]["not_compared"] or "quarantined")
        assert worker.destination()["state"] == "RUNNING"
        assert_rows_from_before_a_rename_are_explained(worker, mysql, tmp_path)


def assert_rows_from_before_a_rename_are_explained(
    worker: Worker, mysql: Mysql, folder: Path
) -> None:
    """They are in the topic of the earlier name, and a repair publishes them."""
    run(
        mysql,
        "CREATE TABLE shop.first (id int PRIMARY KEY)",
        "INSERT INTO shop.first VALUES (1), (2)",
        "RENAME TABLE shop.first TO shop.second",
        "INSERT INTO shop.second VALUES (3)",
    )
    # Until then the command does not know the table.
    caught_up(worker, mysql)
    (one,) = validated(folder, "shop.second", code=1).values()
    assert one["missing"] == 2
    (note,) = one["notes"]
    assert ".shop.first" in note
    assert "--repair" in note
    run_command(folder / "aqueduct.yaml", "validate", "shop", "shop.second", "--repair")
    (one,) = validated(folder, "shop.second", code=0).values()
    assert (one["missing"], one["notes"]) == (0, [])


@pytest.mark.long("differences are found while rows change")
def test_a_worker_that_is_killed_and_started_again_meanwhile(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with changing(mysql, seed=7), ThreadPoolExecutor() as threads:
        with running(wanted, tmp_path) as worker:
            worker.wait(is_done)
            before = readings(mysql)
            words = ("shop.many", "trade.orders", "--rows-per-second", "1000")
            validating = threads.submit(validated, tmp_path, *words, code=0)
            until(lambda: readings(mysql) > before or validating.done())
            assert not validating.done(), validating.result()
        with running(wanted, tmp_path) as worker:
            results = validating.result()
            worker.wait(lambda status: status["state"] == "RUNNING")
    assert results["shop.many"]["rows"] > 4_000


def readings(mysql: Mysql) -> int:
    """The number of times that the end of the binlog was asked for, as after each SELECT."""
    return sum(int(n) for _, n in ask(mysql, "SHOW GLOBAL STATUS LIKE 'Com_show_%log_status'"))


def test_a_sample_and_a_worker_that_does_not_run(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        stopped(worker)
    one = validated(tmp_path, "shop.many", "--sample", "2", code=0)["shop.many"]
    assert 0 < one["rows"] <= 3_000
    assert one["notes"] == [
        "only the rows after 2 random key(s) were compared, and no extra rows looked for"
    ]
    refused = run_command(tmp_path / "aqueduct.yaml", "validate", "shop", "shop.unknown")
    assert refused.returncode == 2
    assert "shop.unknown is no table that the destination captures" in refused.stderr


def stopped(worker: Worker) -> None:
    assert worker.stop() == 0
