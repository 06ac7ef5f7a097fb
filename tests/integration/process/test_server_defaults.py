"""A server with the worst defaults, globally or by init_connect: nothing that we publish or answer changes."""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.servers import Options, own_server
from tests.harness.topics import Change, rows
from tests.harness.worker import running, settings
from tests.harness.worst_defaults import set_by_init_connect, set_globally
from tests.integration.process.test_central_store import follows

NEWEST, MARIADB = "9.7", "mariadb-11.8"
GLOBALLY, BY_INIT_CONNECT = "globally", "by init_connect"
LONG = pytest.mark.long("the newest MySQL, and the newest MariaDB, each with one of the ways")
CASES = [
    (NEWEST, GLOBALLY),
    (MARIADB, BY_INIT_CONNECT),
    pytest.param(NEWEST, BY_INIT_CONNECT, marks=LONG),
    pytest.param(MARIADB, GLOBALLY, marks=LONG),
    pytest.param("5.7", GLOBALLY, marks=LONG),
    pytest.param("5.7", BY_INIT_CONNECT, marks=LONG),
    *((one, way) for one in ("8.0", "mariadb-10.11") for way in (GLOBALLY, BY_INIT_CONNECT)),
]
OPTIONS: Options = {
    "server_id": 9,
    "character_set_server": "latin1",
    # What a client asks for in its greeting is ignored.
    "loose_character_set_client_handshake": "OFF",
}
ROWS, PLAIN = 4_000, 2_000
ALIKE = "x" * 90
"""What the long keys begin with."""
READER = "'reader'@'%'"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.many (id int PRIMARY KEY, v int, note varchar(400))",
    "CREATE TABLE shop.plain (v int, note varchar(40) CHARACTER SET utf8mb4)",
    "CREATE TABLE shop.long_keys (k varchar(120) PRIMARY KEY, v int, KEY (v))",
    "CREATE TABLE shop.in_part (id int PRIMARY KEY, v int)",
    *(f"CREATE TABLE shop.more_{n} (id int PRIMARY KEY)" for n in range(9)),
    "INSERT INTO shop.in_part VALUES (1, 1)",
)
ACCOUNTS = (
    f"CREATE USER {READER} IDENTIFIED BY 'reader'",
    f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {READER}",
    f"GRANT ALL ON meta.* TO {READER}",
    *(
        f"GRANT SELECT ON shop.{one} TO {READER}"
        for one in ("many", "plain", "long_keys", *(f"more_{n}" for n in range(9)))
    ),
    f"GRANT SELECT (id) ON shop.in_part TO {READER}",
)


@contextlib.contextmanager
def session(mysql: Mysql, **more: Any) -> Iterator[pymysql.Connection[Any]]:
    """A connection whose session began before the defaults were changed."""
    settings_given = {"user": "root", "autocommit": True, "ssl_disabled": True, **more}
    opened = pymysql.connect(host=mysql.host, port=mysql.port, **settings_given)
    try:
        yield opened
    finally:
        opened.close()


def execute(connection: pymysql.Connection[Any], *statements: str) -> Any:
    with connection.cursor() as cursor:
        for one in statements:
            cursor.execute(one)
        return cursor.fetchall()


def fill(root: pymysql.Connection[Any]) -> None:
    execute(root, *TABLES, *ACCOUNTS)
    with root.cursor() as cursor:
        for sql, values in (
            ("INSERT INTO shop.many VALUES (%s, %s, %s)", [(n, 0, "n" * 400) for n in range(ROWS)]),
            ("INSERT INTO shop.plain VALUES (%s, %s)", [(n, "Zoë 😀") for n in range(PLAIN)]),
            (
                "INSERT INTO shop.long_keys VALUES (%s, %s)",
                [(f"{ALIKE}{n * 7919 % 3001:05}", n) for n in range(3_000)],
            ),
        ):
            cursor.executemany(sql, values)


@contextlib.contextmanager
def changing(root: pymysql.Connection[Any]) -> Iterator[None]:
    """Rows are changed, deleted and inserted until the end of the block."""

    def change(stop: threading.Event) -> None:
        number = 0
        while not stop.wait(0.02):
            number += 1
            at = number * 1237 % ROWS
            execute(
                root,
                f"UPDATE shop.many SET v = {number} WHERE id BETWEEN {at} AND {at + 20}",
                f"DELETE FROM shop.many WHERE id = {at + 7}",
                f"REPLACE INTO shop.many VALUES ({ROWS + number % 50}, {number}, 'new')",
            )

    with beside(change):
        yield


def is_read(status: dict[str, Any]) -> bool:
    """Whether all rows are read that may be, and only the table of which a column is denied waits."""
    states = {name: one["state"] for name, one in status["snapshot"].items()}
    is_following: bool = follows(0)(status)
    waits = states.pop("shop.in_part", None) == "waiting"
    return waits and {*states.values()} == {"done"} and is_following


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path) -> dict[str, Any]:
    wanted = settings(stack, mysql, folder, snapshot={"mode": "initial", "rows_per_second": 4_000})
    shop = wanted["destinations"]["shop"]
    shop.pop("start")
    shop["source"] |= {"user": "reader", "password": "reader"}
    account = {"user": "reader", "password": "reader", "database": "meta"}
    wanted["schema_history"] = {
        "store": "mysql",
        "mysql": {"host": mysql.host, "port": mysql.port, **account},
    }
    return wanted


def folded(changes: list[Change], *names: str) -> list[tuple[Any, ...]]:
    """The rows that a consumer has in the end, by these columns: first the key, if there is one."""
    found = dict[Any, tuple[Any, ...]]()
    for number, one in enumerate(changes):
        op, before, after = one.value["op"], one.value["before"], one.value["after"]
        if one.key and before is not None:
            found.pop(before[names[0]], None)
        if op == "t":
            found.clear()
        if after is not None:
            row = tuple(after[name] for name in names)
            found[row[0] if one.key else number] = row
    return sorted(found.values())


def assert_equal(stack: Stack, root: pymysql.Connection[Any], prefix: str) -> None:
    for table, names in (
        ("many", ("id", "v")),
        ("plain", ("v", "note")),
        ("long_keys", ("k", "v")),
    ):
        there = sorted(execute(root, f"SELECT {', '.join(names)} FROM shop.{table}"))
        assert folded(rows(stack, prefix, table), *names) == there, table


def assert_commands_answer(folder: Path, mysql: Mysql, name: str) -> None:
    def answer(*words: str, code: int = 0) -> str:
        done = run_command(folder / "aqueduct.yaml", *words)
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    validated = json.loads(
        answer("validate", "shop", "shop.many", "shop.long_keys", "--format", "json")
    )
    for one in validated["tables"]:
        assert {one[kind] for kind in ("missing", "extra", "different")} == {0}, one
        assert one["rows"] >= 3_000, one
    checked = answer("schema", "check", "shop")
    assert (
        f"some of its columns may be seen: GRANT SELECT ON `shop`.`in_part` TO {READER};" in checked
    )
    assert "14 table(s) of the server match the history" in checked
    assert "added" in answer("schema", "show", "shop", "shop.many")
    if name.startswith("mariadb"):
        # It has neither plans nor audits.
        return
    planned = json.loads(answer("snapshot", "plan", "shop", "shop.many"))
    assert [one["table"] for one in planned["tables"]] == ["many"]
    if name == "5.7":
        # No witness of an audit reads it: its binlog names no columns, and the program is another series'.
        return
    program = mysql.mysqlbinlog
    witness = (
        ("--mysqlbinlog", shlex.join(program)) if program else ("--witness", "mysql-replication")
    )
    audited = answer("audit", "shop", *witness)
    assert "lost=0 repeated=0 foreign=0 different=0" in audited.splitlines()[-1], audited


@pytest.mark.parametrize(("name", "way"), CASES)
def test_the_worst_defaults_change_nothing(
    stack: Stack, tmp_path: Path, name: str, way: str
) -> None:
    with (
        own_server(name, tmp_path / "server", options=OPTIONS) as mysql,
        session(mysql) as root,
        session(mysql) as beginning,
    ):
        execute(root, "SET SESSION wait_timeout = 28800, autocommit = 1")
        fill(root)
        if way == GLOBALLY:
            assert len(set_globally(root)) > 25
        else:
            with session(mysql, user="reader", password="reader") as account:
                assert len(set_by_init_connect(root, account)) > 25
        # Rows that are never committed.
        execute(
            beginning,
            "START TRANSACTION",
            "INSERT INTO shop.many VALUES (1000000, 1, 'never')",
            "INSERT INTO shop.plain VALUES (1000000, 'never')",
        )
        wanted = wanted_settings(stack, mysql, tmp_path)
        with running(wanted, tmp_path) as worker:
            with changing(root):
                worker.wait(is_read)
            execute(beginning, "ROLLBACK")
            execute(
                root,
                "ALTER TABLE shop.many ADD COLUMN added int",
                "INSERT INTO shop.many (id, v) VALUES (2000000, 2)",
            )
            worker.wait(
                lambda _: any(
                    (one.value["after"] or {}).get("id") == 2000000
                    for one in rows(stack, wanted["prefix"], "many")
                )
            )
            assert_equal(stack, root, wanted["prefix"])
            assert_commands_answer(tmp_path, mysql, name)
            assert worker.stop() == 0
