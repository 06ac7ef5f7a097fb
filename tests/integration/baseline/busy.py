"""A session that keeps changing tables, and the result of its statements up to a position."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql

from connectors.mysql.ddl.definition import Server, Table
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.schema.server_columns import prepare
from devstack.mysql import Mysql
from tests.harness.sql import connected
from tests.harness.wait import until
from tests.integration.worker.source import facts_of

DATABASE = "busy"
_OURS = (f"use `{DATABASE}`; ", f"ALTER DATABASE `{DATABASE}`")
_PAUSE = 0.02
_TABLES = [f"t{n}" for n in range(6)]
_TYPES = ["int unsigned", "varchar(9)", "decimal(9,2)", "enum('a','b')", "datetime", "text"]


def statements(seed: int, *, has_defaults: bool) -> Iterator[str]:
    """Statements forever; some are refused."""
    draw = random.Random(seed)
    count = 0
    while True:
        count += 1
        table, other = draw.sample(_TABLES, 2)
        if draw.random() < 0.15:
            yield f"CREATE TABLE churn_{seed}_{count} (a int)"
            yield f"DROP TABLE churn_{seed}_{count}"
        kind, at = draw.choice(_TYPES), draw.randrange(4)
        statement = draw.choice(
            [
                f"CREATE TABLE {table} (a{at} int, b {kind}, c varchar(5) NOT NULL DEFAULT 'x', KEY (b(3)))"
                if kind in ("text", "varchar(9)")
                else f"CREATE TABLE {table} (a{at} int PRIMARY KEY, b {kind}, UNIQUE KEY u (b))",
                f"DROP TABLE {table}",
                f"ALTER TABLE {table} ADD COLUMN c{count} {kind} COMMENT 'it''s {count}'",
                f"ALTER TABLE {table} ADD COLUMN f{at} {kind} NOT NULL FIRST, DROP COLUMN b",
                f"ALTER TABLE {table} CHANGE b b{at} {kind}, CONVERT TO CHARACTER SET latin1",
                f"ALTER TABLE {table} DROP COLUMN f{at}",
                f"RENAME TABLE {table} TO was_{table}, {other} TO {table}, was_{table} TO {other}",
                f"ALTER TABLE {table} RENAME TO passing_{count % 50}",
                f"ALTER DATABASE `{DATABASE}` DEFAULT CHARACTER SET {draw.choice(['latin1', 'utf8'])}",
                f"CREATE OR REPLACE VIEW v AS SELECT * FROM {table}",
            ]
        )
        if has_defaults or "DATABASE" not in statement:
            yield statement


class Busy(threading.Thread):
    """Runs such statements until it is stopped."""

    def __init__(self, mysql: Mysql, seed: int) -> None:
        super().__init__()
        self._mysql, self._seed = mysql, seed
        # A session that uses a database of MariaDB keeps the default that it had then, which no binlog has.
        self._has_defaults = not facts_of(mysql).is_mariadb
        self._stopped = threading.Event()
        self.done = 0

    def run(self) -> None:
        with connected(self._mysql, database=DATABASE) as cursor:
            for statement in statements(self._seed, has_defaults=self._has_defaults):
                if self._stopped.wait(_PAUSE):
                    return
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(statement)
                    self.done += 1

    def __enter__(self) -> Busy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(timeout=60)
        assert not self.is_alive()


def wait_until_done(count: int, *busy: Busy) -> None:
    """Until they have run so many statements together."""
    until(
        lambda: sum(one.done for one in busy) >= count, glance=0.01, late=lambda: "nothing is done"
    )


@dataclass(frozen=True, slots=True)
class Logged:
    """A statement as SHOW BINLOG EVENTS has it."""

    sql: str
    gtid: str | None
    end: Coordinates

    def is_before(self, at: SourceOffset) -> bool:
        by_coordinates = self.end.order <= at.coordinates.order
        if isinstance(at.gtid_set, GtidSet) and self.gtid:
            assert (self.gtid in at.gtid_set) == by_coordinates, "the place and its GTIDs differ"
        return by_coordinates


def logged(mysql: Mysql, begin: Coordinates) -> list[Logged]:
    """The busy sessions' statements after a position, from the server's SHOW BINLOG EVENTS."""
    found, gtid = [], None
    with connected(mysql) as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {begin.pos}")
        for _, _, kind, _, end, info in cursor.fetchall():
            if kind == "Gtid" and "GTID_NEXT" in info:
                gtid = info.split("'")[1]
            elif kind == "Query" and info.startswith(_OURS):
                found.append(
                    Logged(info.removeprefix(_OURS[0]), gtid, Coordinates(begin.file, end))
                )
    return found


class Replay:
    """The same statements again, in a database of another name."""

    def __init__(self, mysql: Mysql, server: Server, name: str) -> None:
        self._mysql, self._server, self._name = mysql, server, name
        self._at = 0

    def tables_at(self, at: SourceOffset, statements: list[Logged]) -> dict[str, Table]:
        """The tables after all statements before a position; positions are in order."""
        with connected(self._mysql, database=self._name) as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            while self._at < len(statements) and statements[self._at].is_before(at):
                cursor.execute(statements[self._at].sql.replace(f"`{DATABASE}`", f"`{self._name}`"))
                self._at += 1
            prepare(cursor)
            reader = InventoryReader(cursor, self._server)
            found = reader.some(name for name in reader.names() if name[0] == self._name)
            return {table: one for (_, table), one in found.tables.items()}
