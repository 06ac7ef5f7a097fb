"""A shop whose rows change all the time, and the differences that are planted in it without the binlog."""

from __future__ import annotations

import base64
import contextlib
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.sql import connected, run
from tests.harness.worker import settings

KINDS: Mapping[str, tuple[str, str, str]] = {
    "tiny": ("tinyint", "-128", "127"),
    "large": ("bigint unsigned", "18446744073709551615", "18446744073709551614"),
    "exact": ("decimal(30,10)", "12345678901234567890.0000000001", "12345678901234567890.0000000002"),
    "single": ("float", "0.1", "0.2"),
    "twofold": ("double", "0.1", "0.1000000000000001"),
    "name": ("varchar(40)", "'Zoë 😀'", "'Zoë 😁'"),
    "fixed": ("char(9) CHARACTER SET latin1", "'ä'", "'Ä'"),
    "chinese": ("text CHARACTER SET gbk", "'中国'", "'中'"),
    "raw": ("blob", "X'00ff'", "X'00fe'"),
    "padded": ("binary(4)", "X'01'", "X'02'"),
    "day": ("date", "'2026-11-27'", "'0000-00-00'"),
    "span": ("time(3)", "'-838:59:59.000'", "'-838:59:58.999'"),
    "local": ("datetime(6)", "'2026-11-27 01:02:03.000004'", "'2026-11-27 01:02:03.000005'"),
    "instant": ("timestamp(2) NULL", "'2026-11-27 01:02:03.12'", "'2026-11-27 01:02:03.13'"),
    "vintage": ("year", "2026", "2027"),
    "flags": ("bit(10)", "b'1000000001'", "b'1000000000'"),
    "choice": ("enum('a','b','')", "'b'", "''"),
    "several": ("set('a','b','c')", "'a,c'", "''"),
    "document": ("json", """'{"a": [1, 2.50, null]}'""", """'{"a": [1, 2.51, null]}'"""),
    "spot": ("point", "POINT(1, 2)", "POINT(2, 1)"),
}  # fmt: skip
"""Types by column, each with a value and another one."""
ROWS = 6_000
CALM = ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION sql_mode = ''")
"""A session that locks only the rows that it changes."""
LETTERS = "aäbcdéfgöh"
QUIET = ROWS // 10 - 50
"""The writer changes rows with smaller numbers only."""
MAPPING = """
tables:
  trade.orders: {from: ['shop.orders_[0-9]'], topic: trade, shard_in_key: always}
  customers:
    from: [shop.customers]
    row_filter: id <> 3 AND plain <> 'hidden'
    column_actions: {email: {hmac: k1}, card: {truncate: 2}, gone: drop, plain: {rename: shown}}
  inserts: {from: [shop.inserts], operations: [insert]}
"""
CUSTOMERS = (
    "(id int PRIMARY KEY, email varchar(99), card varchar(99), gone varchar(99), plain varchar(99))"
)
TABLES = (
    "CREATE DATABASE shop",
    (
        "CREATE TABLE shop.many (b varchar(20) CHARACTER SET latin1, a int, v int, note varchar(99),"
        " PRIMARY KEY (b, a))"
    ),
    "CREATE TABLE shop.plain (v int)",
    "CREATE TABLE shop.inserts (id int PRIMARY KEY)",
    "CREATE TABLE shop.empty (id int PRIMARY KEY)",
    *(f"CREATE TABLE shop.orders_{n} (id int PRIMARY KEY, x int)" for n in (1, 2)),
    f"CREATE TABLE shop.customers {CUSTOMERS}",
    f"CREATE TABLE shop.kinds (id int PRIMARY KEY, {', '.join(f'{n} {k[0]}' for n, k in KINDS.items())})",
)


def filled(mysql: Mysql) -> None:
    """Make the tables, and rows of each."""
    run(mysql, *TABLES)
    values = ", ".join(kind[1] for kind in KINDS.values())
    run(
        mysql,
        "SET sql_mode = ''",
        *(f"INSERT INTO shop.kinds VALUES ({n}, {values})" for n in range(len(KINDS) + 2)),
        f"INSERT INTO shop.kinds (id) VALUES ({len(KINDS) + 2})",
        *(f"INSERT INTO shop.orders_{n} VALUES (1, 1), (2, 2), (3, 3)" for n in (1, 2)),
        *(f"INSERT INTO shop.customers VALUES ({n}, 'a{n}', 'xx{n}', 'g', 'p')" for n in range(9)),
        "INSERT INTO shop.plain VALUES (1), (1)",
        "INSERT INTO shop.inserts VALUES (1)",
    )
    with connected(mysql, autocommit=False) as cursor:
        cursor.executemany(
            # With a literal among them PyMySQL would send each row by itself.
            "INSERT INTO shop.many VALUES (%s, %s, %s, %s)",
            [(b, a, 0, "note") for a in range(ROWS // 10) for b in LETTERS],
        )
        cursor.execute("COMMIT")


@contextlib.contextmanager
def changing(mysql: Mysql, *, seed: int) -> Iterator[None]:
    """Rows are changed, deleted and inserted until the end of the block."""

    def change(stop: threading.Event) -> None:
        chance, number = random.Random(seed), 1
        with connected(mysql) as cursor:
            cursor.execute(CALM[0])
            while not stop.wait(0.002):
                a, b = chance.randrange(QUIET), chance.choice(LETTERS)
                what = chance.random()
                if what < 0.5:
                    cursor.execute("UPDATE shop.many SET v = %s WHERE a = %s", (number, a))
                elif what < 0.7:
                    cursor.execute("DELETE FROM shop.many WHERE a = %s AND b = %s", (a, b))
                elif what < 0.8:
                    cursor.execute("UPDATE IGNORE shop.many SET b = %s WHERE a = %s", (b, a))
                elif what < 0.9:
                    cursor.execute("REPLACE INTO shop.orders_1 VALUES (%s, %s)", (10 + a, number))
                    cursor.execute("UPDATE shop.customers SET plain = %s WHERE id = 8", (number,))
                else:
                    row = (b, a, number)
                    cursor.execute("REPLACE INTO shop.many (b, a, v) VALUES (%s, %s, %s)", row)
                number += 1

    with beside(change):
        yield


def unlogged(mysql: Mysql, *statements: str) -> None:
    """Run statements that are in no binlog."""
    run(mysql, "SET SESSION sql_log_bin = 0", *CALM, *statements)


def wanted_settings(stack: Stack, mysql: Mysql, folder: Path) -> dict[str, Any]:
    """The settings of a worker that begins with the existing rows."""
    wanted = settings(stack, mysql, folder, snapshot={"mode": "initial"})
    wanted["destinations"]["shop"].pop("start")
    mapping, keys = folder / "mapping.yaml", folder / "keys.yaml"
    mapping.write_text(MAPPING)
    keys.write_text(f"k1: {base64.b64encode(bytes(range(32))).decode()}\n")
    wanted["mapping"] = {"file": str(mapping), "key_file": str(keys)}
    return wanted
