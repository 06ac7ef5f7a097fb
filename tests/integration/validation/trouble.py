"""What prevents the reading of a table at a real server, for as long as a block lasts.

Statements are killed, columns are denied, or an ALTER TABLE waits for a transaction, and every reader for it.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql

from devstack.mysql import Mysql
from tests.harness.beside import beside
from tests.harness.sql import connected, run
from tests.harness.wait import until

READER = "'reader'@'%'"
ROWS = 200
ACCOUNT = (
    f"CREATE USER {READER} IDENTIFIED BY 'reader'",
    f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {READER}",
)
"""An account that may read no table yet."""
_SLOW = "s char(128) CHARACTER SET latin1 AS (SHA2(REPEAT(v, 400000), 512)) VIRTUAL"
"""A column that takes milliseconds for each row."""
_WAITS = "Waiting for table metadata lock"


def slow_table(name: str) -> tuple[str, ...]:
    """A table whose rows take seconds to be read, so that a SELECT can be killed within."""
    rows = ", ".join(f"({n}, '0123456789')" for n in range(1, ROWS + 1))
    return (
        f"CREATE TABLE shop.{name} (id int PRIMARY KEY, v varchar(40), {_SLOW})",
        f"INSERT INTO shop.{name} (id, v) VALUES {rows}",
    )


def sessions(cursor: Any) -> list[tuple[int, str, str, str]]:
    """The number, user, state and statement of each session."""
    cursor.execute("SHOW FULL PROCESSLIST")
    return [(row[0], row[1], row[6] or "", row[7] or "") for row in cursor.fetchall()]


@dataclass(slots=True)
class Kills:
    """How many statements were killed."""

    count: int = 0


@contextlib.contextmanager
def killing(mysql: Mysql, table: str, *, most: int | None = None) -> Iterator[Kills]:
    """Kill each SELECT of the reader on a table while it runs, or so many of them."""
    kills = Kills()
    select = re.compile(f"SELECT .*`s`.* FROM `shop`.`{table}`")

    def kill(stop: threading.Event) -> None:
        with connected(mysql) as cursor:
            while not stop.wait(0.02) and (most is None or kills.count < most):
                for number, user, _, info in sessions(cursor):
                    if user != "reader" or not select.match(info):
                        continue
                    # It may have ended by itself, or be another one by now.
                    with contextlib.suppress(pymysql.err.OperationalError):
                        cursor.execute(f"KILL QUERY {number}")
                        kills.count += 1

    with beside(kill) as end:
        yield kills
        end()


def denied_column(mysql: Mysql, table: str) -> None:
    """The reader may read some columns of a table."""
    run(
        mysql,
        f"REVOKE SELECT ON shop.{table} FROM {READER}",
        f"GRANT SELECT (id, v) ON shop.{table} TO {READER}",
    )


def allowed(mysql: Mysql, table: str) -> None:
    """It may read all of them again."""
    run(mysql, f"GRANT SELECT ON shop.{table} TO {READER}")


@contextlib.contextmanager
def altering(mysql: Mysql, table: str, change: str) -> Iterator[None]:
    """An ALTER TABLE that waits for a transaction until the end of the block, and holds all others up."""

    def alter(_: threading.Event) -> None:
        run(mysql, f"ALTER TABLE shop.{table} {change}")

    with connected(mysql, autocommit=False) as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM shop.{table}")
        with beside(alter):
            try:
                until(lambda: _waits(mysql), late=lambda: "the ALTER TABLE does not wait")
                yield
            finally:
                cursor.execute("COMMIT")


def _waits(mysql: Mysql) -> bool:
    with connected(mysql) as cursor:
        return any(
            state == _WAITS and info.startswith("ALTER") for _, _, state, info in sessions(cursor)
        )
