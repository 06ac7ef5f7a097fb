"""`python -m app validate --repair`: afterwards the topics have the source's rows and no other."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from app.operator.journal_access import Journal
from app.operator.snapshot import request_snapshots
from app.operator.source_connection import reachable_source
from app.operator.validate import conditions
from app.operator.validation.definitions import Definitions, definitions_now
from app.settings.model import load
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select.record_keys import RecordKeys
from connectors.mysql.server.facts import ServerFacts
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.snapshots.request import SnapshotAction
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.topics import Change, changes, rows, values
from tests.harness.wait import until
from tests.harness.worker import Worker, running
from tests.integration.validation.shop import (
    LETTERS,
    QUIET,
    changing,
    filled,
    unlogged,
    wanted_settings,
)
from tests.integration.validation.test_validate import assert_equal, is_done, plant, validated

KEYS = {
    "tiny": ("tinyint", "-128", "0", "127"),
    "large": ("bigint unsigned", "0", "9007199254740993", "18446744073709551615"),
    "exact": ("decimal(30,10)", "-0.0000000001", "12345678901234567890.1", "1.5"),
    "single": ("float", "0.1", "-1e-40", "3.4028235e38", "16777216", "1e20"),
    "twofold": ("double", "0.1", "-5e-324", "1.7976931348623157e308", "1e22"),
    "vintage": ("year", "0", "1901", "2155"),
    "day": ("date", "'2026-11-27'", "'0000-00-00'", "'2026-00-00'"),
    "span": ("time(3)", "'-838:59:59.000'", "'00:00:00.001'", "'12:00:00'"),
    "local": ("datetime(6)", "'2026-11-27 01:02:03.000004'", "'0000-00-00 00:00:00'"),
    "instant": ("timestamp(2)", "'2026-11-27 01:02:03.12'", "'2026-03-29 02:30:00'", "0"),
    "flags": ("bit(10)", "b'0'", "b'1000000001'", "b'1111111111'"),
    "padded": ("binary(4)", "X'01'", "X'00000000'", "X'ffffffff'"),
    "raw": ("varbinary(9)", "X''", "X'00'", "X'0000'", "X'27'"),
    "name": ("varchar(40)", "''", "'Zoë 😀'", "'a''b'", "'a\\\\b'", "' a'"),
    "exactly": ("varchar(40) COLLATE utf8mb4_bin", "'a'", "'A'", "'ä'"),
    "fixed": ("char(9) CHARACTER SET latin1", "'ä'", "'€'", "'a b'", "''"),
    "chinese": ("varchar(9) CHARACTER SET gbk", "'中国'", "'㐀'", "'a'"),
    "japanese": ("varchar(9) CHARACTER SET cp932", "'あ'", "'日本'", "'ｱ'"),
    "wide": ("varchar(9) CHARACTER SET utf16", "'😀'", "'é'", "'a'"),
    "thai": ("varchar(9) CHARACTER SET tis620", "'ก'", "'a'"),
    "choice": ("enum('a','é','')", "'a'", "'é'", "3"),
    "several": ("set('a','b','é')", "''", "'a,é'", "'b'"),
}  # fmt: skip
"""Types of a key's column, each with values."""
TABLES = {
    "of_numbers": ("tiny", "large", "exact", "single", "twofold", "vintage", "flags"),
    "of_times": ("day", "span", "local", "instant"),
    "of_text": ("name", "exactly", "fixed", "wide", "thai", "choice", "several"),
    "of_bytes": ("padded", "raw", "chinese", "japanese"),
}
"""Tables with the columns of their keys."""
ROWS_OF_MANY = 600
"""The numbers of rows, of each of which there are ten."""
CROWD = [(b, QUIET + n) for n in range(40) for b in LETTERS]
"""Keys that no writer changes but that of a test."""


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    with own_mysql(stack, options={"server_id": 9}) as server:
        filled(server)
        yield server


def repaired(folder: Path, *words: str) -> dict[str, str]:
    """What was reported of each table."""
    done = run_command(folder / "aqueduct.yaml", "validate", "shop", *words, "--repair")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line.partition(": ") for line in done.stderr.splitlines() if "request(s)" in line]
    return {table: what for table, _, what in lines}


def deletes(found: list[Change]) -> list[Change]:
    """Those of rows that only subscribers had."""
    return [
        one
        for one in found
        if one.value["op"] == "d" and one.value["source"]["snapshot"] == "incremental"
    ]


def test_all_rows_are_equal_afterwards_while_others_change(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker, changing(mysql, seed=15):
        worker.wait(is_done)
        plant(mysql)
        unlogged(
            mysql,
            f"DELETE FROM shop.many WHERE a >= {QUIET + 5}",
            # The filter hides what it let through before.
            "UPDATE shop.customers SET plain = 'hidden' WHERE id = 5",
            # Equal keys to the server, and two to a subscriber.
            f"UPDATE shop.many SET b = 'C' WHERE b = 'c' AND a = {QUIET + 3}",
        )
        extra = 10 * (ROWS_OF_MANY - QUIET - 5) + 2
        found = repaired(tmp_path)
        assert found["shop.many"] == (
            f"3 row(s) published again, {extra} extra row(s) deleted if still gone, "
            f"by {2 + extra // 200} request(s)"
        )
        assert found["shop.customers"].startswith("2 row(s) published again, 1 extra row(s)")
        assert found["shop.orders_2"].startswith("2 row(s) published again, 1 extra row(s)")
        topics = {name: one["topic"] for name, one in assert_equal(tmp_path).items()}
        assert worker.stop() == 0
    (one,) = deletes(changes(stack, topics["shop.orders_2"], partitions=2))
    assert json.loads(one.key) == {"__shard": ["shop", "shop", "orders_2"], "id": 1}
    assert (one.value["before"], one.value["absent"]) == ({"id": 1}, ["x"])
    (one,) = deletes(changes(stack, topics["shop.customers"], partitions=2))
    assert (one.value["before"], one.value["absent"]) == ({"id": 5}, ["email", "card", "shown"])


@contextmanager
def coming_back(mysql: Mysql) -> Iterator[None]:
    """Rows that are extra are inserted, changed and deleted until the end of the block."""

    def write(stop: threading.Event) -> None:
        chance, number = random.Random(4), 0
        with connected(mysql) as cursor:
            while not stop.is_set():
                b, a = chance.choice(CROWD)
                number += 1
                words = f"b = '{b}' AND a = {a}"
                cursor.execute(f"INSERT IGNORE INTO shop.many VALUES ('{b}', {a}, {number}, '')")
                if number % 3:
                    cursor.execute(f"UPDATE shop.many SET v = {number + 1} WHERE {words}")
                if number % 2:
                    cursor.execute(f"DELETE FROM shop.many WHERE {words}")
                # So few that others are still to be deleted when their request comes.
                stop.wait(0.03)

    with beside(write):
        yield


@pytest.mark.long("kills, and other changes meanwhile")
def test_of_a_row_that_comes_back_meanwhile_the_newest_image_wins(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    listed = ", ".join(f"('{b}', {a})" for b, a in CROWD)
    crowd = ", ".join(f"('{b}', {a}, 0, '')" for b, a in CROWD)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        for _ in range(3):
            # Else only those that came back and stayed would be extra next time: few, or none.
            run(mysql, f"INSERT IGNORE INTO shop.many VALUES {crowd}")
            unlogged(mysql, f"DELETE FROM shop.many WHERE (b, a) IN ({listed})")
            with coming_back(mysql):
                repaired(tmp_path, "shop.many")
            assert_equal(tmp_path)
        assert worker.stop() == 0
    found = rows(stack, wanted["prefix"], "many")
    assert deletes(found)
    assert any(one.value["op"] == "c" for one in found), "nothing came back meanwhile"
    numbers = [one.seq for one in found]
    assert numbers == sorted(set(numbers))


@pytest.mark.long("kills, and other changes meanwhile")
def test_rows_that_come_back_between_the_select_and_its_entry_stay(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        assert worker.stop() == 0
    last = ROWS_OF_MANY - 1
    unlogged(mysql, f"DELETE FROM shop.many WHERE a = {last}")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    keys = [f'{{"b":"{b}","a":{last}}}' for b in LETTERS]
    request_removal_of("many", f"a = {last}", keys)
    # The event loop is stopped, while a thread continues to read the binlog.
    monkeypatch.setenv(VARIABLE, "snapshot.read=stall:8")
    with running(wanted, tmp_path) as worker:
        until(lambda: "snapshot start of shop.many" in worker.log)
        for b in LETTERS[:8]:
            run(mysql, f"INSERT INTO shop.many VALUES ('{b}', {last}, 5, 'again')")
            time.sleep(0.4)
        worker.wait(lambda status: is_removed(status, "many"))
        assert_equal(tmp_path)
        assert worker.stop() == 0
    found = [one for one in rows(stack, wanted["prefix"], "many") if one.key.decode() in keys]
    assert {one.key.decode() for one in deletes(found)} >= set(keys[8:])
    assert sum(one.value["op"] == "c" for one in found) == 8


@pytest.mark.parametrize(
    ("fault", "passes"),
    [
        pytest.param("snapshot.handed", (1,), marks=pytest.mark.long("kills after a commit")),
        pytest.param("produce.rows", (1, 2), marks=pytest.mark.long("kills after a commit")),
        ("commit.after", (1, 2)),
    ],
)
def test_after_kills_each_row_is_deleted_once(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    passes: tuple[int, ...],
) -> None:
    """A run's first transaction has the request's state, the second the deletes."""
    wanted = wanted_settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        assert worker.stop() == 0
    where = f"a >= {QUIET + 20}"
    unlogged(mysql, f"DELETE FROM shop.many WHERE {where}")
    extra = [
        one.key.decode()
        for one in rows(stack, wanted["prefix"], "many")
        if one.value["after"]["a"] >= QUIET + 20
    ]
    assert len(extra) == 10 * (ROWS_OF_MANY - QUIET - 20)
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    request_removal_of("many", where, extra)
    for at in passes:
        with monkeypatch.context() as faults:
            faults.setenv(VARIABLE, f"{fault}=kill@{at}")
            with running(wanted, tmp_path) as worker:
                assert worker.process.wait(120) == -signal.SIGKILL
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: is_removed(status, "many"))
        run(mysql, f"INSERT INTO shop.many VALUES ('a', {QUIET + 30}, 5, 'again')")
        assert_equal(tmp_path)
        done = run_command(tmp_path / "aqueduct.yaml", "audit", "shop")
        assert done.returncode in (0, 3), done.stdout + done.stderr
        assert worker.stop() == 0
    found = deletes(rows(stack, wanted["prefix"], "many"))
    assert sorted(one.key.decode() for one in found) == sorted(extra)


def values_of(kinds: tuple[str, ...]) -> list[str]:
    """Rows of a table whose key has these columns: with each of their values."""
    values = [KEYS[one][1:] for one in kinds]
    return [
        ", ".join(one[number % len(one)] for one in values)
        for number in range(max(map(len, values)))
    ]


def test_rows_are_found_and_deleted_by_keys_of_each_type(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(mysql, "SET sql_mode = ''", *(one for table in TABLES for one in made(table)))
    wanted = wanted_settings(stack, mysql, tmp_path)
    names = [f"shop.{table}" for table in TABLES]
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
        definitions, facts = asyncio.run(defined())
        for table in TABLES:
            changes = rows(stack, wanted["prefix"], table)
            assert_each_row_is_found(mysql, table, changes, definitions, facts)
        unlogged(mysql, *(f"DELETE FROM shop.{table} WHERE v <> 1" for table in TABLES))
        found = repaired(tmp_path, *names)
        assert {table: int(what.partition(" ")[0]) for table, what in found.items()} == {
            f"shop.{table}": len(values_of(kinds)) - 1 for table, kinds in TABLES.items()
        }
        validated(tmp_path, *names, code=0)
        assert worker.stop() == 0


def made(table: str) -> list[str]:
    """The statements that make a table and its rows, which are numbered."""
    kinds = TABLES[table]
    columns = ", ".join(f"{one} {KEYS[one][0]} NOT NULL" for one in kinds)
    return [
        f"CREATE TABLE shop.{table} ({columns}, v int, PRIMARY KEY ({', '.join(kinds)}))",
        *(
            f"INSERT INTO shop.{table} VALUES ({one}, {n})"
            for n, one in enumerate(values_of(kinds))
        ),
    ]


async def defined() -> tuple[Definitions, ServerFacts]:
    journal = Journal.of(load(), "shop")
    source = await reachable_source(journal, await journal.state(), print)
    return await definitions_now(journal, source.facts), source.facts


def assert_each_row_is_found(
    mysql: Mysql, table: str, changes: list[Change], definitions: Definitions, facts: ServerFacts
) -> None:
    """The expression of each key finds its row, and no other."""
    name = ("shop", table)
    known = definitions.tables[name]
    keys = RecordKeys(name, known, facts.charsets, server=server_of(facts))
    for one in changes:
        (condition,) = conditions(known.primary_key, [keys.literals(json.loads(one.key))])
        with connected(mysql) as cursor:
            for statement in ("SET sql_mode = ''", "SET time_zone = '+00:00'"):
                cursor.execute(statement)
            cursor.execute(f"SELECT v FROM shop.{table} WHERE {condition}")
            assert cursor.fetchall() == ((one.value["after"]["v"],),), (one.key, condition)
    assert len(changes) == len(values_of(TABLES[table]))


def test_the_deletes_of_other_formats(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats = ("canal", "maxwell")
    run(mysql, *(f"CREATE TABLE shop.{one} (id int PRIMARY KEY, v int)" for one in formats))
    run(mysql, *(f"INSERT INTO shop.{one} VALUES (1, 1), (2, 2)" for one in formats))
    wanted = wanted_settings(stack, mysql, tmp_path)
    mapping = tmp_path / "mapping.yaml"
    rules = "".join(
        f"  shop.{one}: {{from: [shop.{one}], format: {one}, partitions: 1}}\n" for one in formats
    )
    mapping.write_text(mapping.read_text() + rules)
    with running(wanted, tmp_path) as worker:
        worker.wait(is_done)
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
        for one in formats:
            remove(worker, one, ["1", "7"])
        assert worker.stop() == 0
    canal, maxwell = (values(stack, f"{wanted['prefix']}.shop.{one}") for one in formats)
    assert [(one["type"], one["data"]) for one in canal[2:]] == [
        ("INSERT", [{"id": "1", "v": "1"}]),
        ("DELETE", [{"id": "7"}]),
    ]
    assert [(one["type"], one["data"]) for one in maxwell[2:]] == [
        ("insert", {"id": 1, "v": 1}),
        ("delete", {"id": 7}),
    ]


def remove(worker: Worker, table: str, ids: list[str]) -> None:
    """Request that rows are deleted unless the source has them, and wait for it."""
    keys = [f'{{"id":{one}}}' for one in ids]
    request_removal_of(table, f"id IN ({', '.join(ids)})", keys)

    worker.wait(lambda status: is_removed(status, table))


def is_removed(status: dict[str, Any], table: str) -> bool:
    """Whether the request of a condition has ended, and not only the first reading."""
    one = status["snapshot"].get(f"shop.{table}", {})
    return one.get("state") == "done" and one["where"] is not None


def request_removal_of(table: str, where: str, keys: list[str]) -> None:
    """Write the request for a worker that runs, or will run."""
    journal = Journal.of(load(), "shop")
    asyncio.run(
        request_snapshots(
            journal,
            SnapshotAction.START,
            [("shop", table)],
            print,
            where=where,
            removes=tuple(keys),
            by="test",
            wait=None,
        )
    )
