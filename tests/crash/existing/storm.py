"""Changes of the very rows that are being read: of their values and keys, deletes, and statements.

Invariant: each written value is new, so an older image of a row is never equal to a newer one.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymysql

from devstack.mysql import Mysql
from tests.harness.sql import connected, run

PAIRS, IDS, LETTERS = 500, 2500, "abcdfghijk"
PLAIN = 60
SCHEMA = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.pairs (a int, b varchar(20) CHARACTER SET latin1, v int, PRIMARY KEY (a, b))",
    "CREATE TABLE shop.altered (id int PRIMARY KEY, v int)",
    "CREATE TABLE shop.emptied (id int PRIMARY KEY, v int)",
    "CREATE TABLE shop.plain (v int)",
    "CREATE TABLE shop.mark (id int PRIMARY KEY)",
)
KEYED = ("altered", "emptied", "pairs")
_AWAY = 100_000
"""The distance of a key that was moved from where it was."""

Change = Callable[[Any], None]


def fill(mysql: Mysql) -> None:
    """The rows that exist already."""
    with connected(mysql, autocommit=False) as cursor:
        pairs = [(a, b, 0) for a in range(PAIRS) for b in LETTERS]
        cursor.executemany("INSERT INTO shop.pairs VALUES (%s, %s, %s)", pairs)
        for table in ("altered", "emptied"):
            rows = [(n, 0) for n in range(IDS)]
            cursor.executemany(f"INSERT INTO shop.{table} (id, v) VALUES (%s, %s)", rows)
        cursor.executemany("INSERT INTO shop.plain VALUES (%s)", [(n // 2,) for n in range(PLAIN)])
        cursor.execute("COMMIT")


class Storm:
    """Two writers of rows and one of statements, until the block ends or ``stop()``."""

    def __init__(self, mysql: Mysql, seed: int, *, statements: bool = True) -> None:
        self._mysql = mysql
        self._stop = threading.Event()
        self._numbers = itertools.count(1)
        self.committed = self.altered = 0
        self.errors: list[BaseException] = []
        works = [self._rows, self._rows, *([self._statements] if statements else [])]
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, random.Random(seed * 31 + n)))
            for n, work in enumerate(works)
        ]

    def __enter__(self) -> Storm:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join()

    def stop(self) -> None:
        """Let each writer finish what it does; raises what went wrong with one."""
        self.__exit__()
        if self.errors:
            raise self.errors[0]

    def _guarded(self, work: Callable[[random.Random], None], chance: random.Random) -> None:
        try:
            work(chance)
        except BaseException as error:
            self.errors.append(error)

    def _rows(self, chance: random.Random) -> None:
        with connected(self._mysql, autocommit=False) as cursor:
            while not self._stop.is_set():
                try:
                    for _ in range(chance.choice((1, 1, 1, 4))):
                        self._change(cursor, chance)
                    cursor.execute("COMMIT" if chance.random() < 0.95 else "ROLLBACK")
                    self.committed += 1
                except pymysql.MySQLError as error:
                    # A deadlock, a key that exists, or a table that was altered meanwhile.
                    if error.args[0] not in (1205, 1213, 1062, 1412):
                        raise
                    cursor.execute("ROLLBACK")
                self._stop.wait(0.004)

    def _change(self, cursor: Any, chance: random.Random) -> None:
        if chance.random() < 0.5:
            key, where = self._pair(chance)
            table, columns, moved = "pairs", "a, b", f"a = a + {_AWAY}"
            if chance.random() < 0.5:
                # For its collation it is the same key.
                moved = "b = IF(BINARY b = LOWER(b), UPPER(b), LOWER(b))"
        else:
            table, columns, moved = (
                chance.choice(("altered", "emptied")),
                "id",
                f"id = id + {_AWAY}",
            )
            key, where = (chance.randrange(IDS),), "id = %s"
        self._apply(cursor, chance, (f"shop.{table}", columns, moved), key, where)

    def _pair(self, chance: random.Random) -> tuple[tuple[Any, ...], str]:
        return (chance.randrange(PAIRS), chance.choice(LETTERS)), "a = %s AND b = %s"

    def _apply(
        self, cursor: Any, chance: random.Random, of: tuple[str, str, str], key: Any, where: str
    ) -> None:
        """One change of a row with a key."""
        table, columns, moved = of
        v = next(self._numbers)
        places = ", ".join(["%s"] * (len(key) + 1))
        insert = f"({columns}, v) VALUES ({places})"
        match chance.choices(
            ("update", "delete", "again", "move", "back", "replace"), (8, 3, 3, 3, 2, 3)
        )[0]:
            case "update":
                cursor.execute(f"UPDATE {table} SET v = %s WHERE {where}", (v, *key))
            case "delete":
                cursor.execute(f"DELETE FROM {table} WHERE {where}", key)
            case "again":
                cursor.execute(f"DELETE FROM {table} WHERE {where}", key)
                cursor.execute(f"INSERT INTO {table} {insert}", (*key, v))
            case "move":
                cursor.execute(f"UPDATE {table} SET {moved}, v = %s WHERE {where}", (v, *key))
            case "back":
                away = (key[0] + _AWAY, *key[1:])
                first = columns.partition(",")[0]
                text = f"UPDATE {table} SET {first} = {first} - {_AWAY}, v = %s WHERE {where}"
                cursor.execute(text, (v, *away))
            case "replace":
                cursor.execute(f"REPLACE INTO {table} {insert}", (*key, v))

    def _statements(self, chance: random.Random) -> None:
        """ALTER, TRUNCATE with half of its keys coming back, and changes of the table without a key."""
        added = 0
        while not self._stop.wait(chance.uniform(0.3, 1.2)):
            match chance.choice(("add", "drop", "convert", "empty", "plain", "plain")):
                case "add":
                    added += 1
                    self._altered(f"ADD COLUMN w{added} int DEFAULT {added}")
                case "drop" if added:
                    with contextlib.suppress(pymysql.err.OperationalError):
                        self._altered(f"DROP COLUMN w{chance.randint(1, added)}")
                case "convert":
                    self._altered(f"MODIFY v {chance.choice(('int', 'bigint', 'decimal(20)'))}")
                case "empty":
                    run(self._mysql, "TRUNCATE TABLE shop.emptied")
                    rows = ", ".join(
                        f"({n}, {next(self._numbers)})" for n in chance.sample(range(IDS), IDS // 2)
                    )
                    with contextlib.suppress(pymysql.err.IntegrityError):
                        run(self._mysql, f"INSERT INTO shop.emptied VALUES {rows}")
                case "plain":
                    v = next(self._numbers)
                    run(
                        self._mysql,
                        f"INSERT INTO shop.plain VALUES ({v}), ({v})",
                        f"UPDATE shop.plain SET v = {v} + 1 WHERE v = {chance.randrange(PLAIN // 2)} LIMIT 1",
                        f"DELETE FROM shop.plain WHERE v = {chance.randrange(PLAIN // 2)} LIMIT 1",
                    )

    def _altered(self, what: str) -> None:
        run(self._mysql, f"ALTER TABLE shop.altered {what}")
        self.altered += 1


@contextlib.contextmanager
def raging(mysql: Mysql, seed: int, *, statements: bool = True) -> Iterator[Storm]:
    """A storm over the filled tables."""
    with Storm(mysql, seed, statements=statements) as storm:
        yield storm
