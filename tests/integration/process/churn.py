"""Tables that change while rows are written to them, and each row as it was when written.

Invariant: the expected row is the one that the server itself returned at once, with the columns of that moment;
our own code takes no part in it.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

TYPES = (
    "int", "bigint unsigned", "varchar(40)", "varchar(80) CHARACTER SET latin1", "smallint unsigned",
    "enum('a','b','c')", "char(8)", "tinyint unsigned", "mediumint",
)  # fmt: skip
FIRST = "CREATE TABLE `{name}` (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, c0 int, c1 varchar(40))"
AGAIN = "CREATE TABLE `{name}` (c1 bigint unsigned, tag char(8), id int NOT NULL AUTO_INCREMENT PRIMARY KEY)"


@dataclass(slots=True)
class Churn:
    """One connection's tables, with statements that change them and rows in between."""

    host: str
    port: int
    number: int
    statements: int
    written: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of each table the rows in their order, as they were."""
    altered: int = 0

    def run(self) -> None:
        """Change and write."""
        connection = pymysql.connect(
            host=self.host,
            port=self.port,
            user="root",
            database="shop",
            autocommit=True,
            charset="utf8mb4",
            cursorclass=DictCursor,
        )
        with connection, connection.cursor() as cursor:
            _Work(self, cursor).run()


class _Work:
    def __init__(self, churn: Churn, cursor: DictCursor) -> None:
        self.churn = churn
        self.cursor = cursor
        self.random = random.Random(churn.number)
        self.names = [f"t{churn.number}_{letter}" for letter in "ab"]
        self.count = 0

    def run(self) -> None:
        for name in self.names:
            self.cursor.execute(FIRST.format(name=name))
        while self.churn.altered < self.churn.statements:
            self.alter(self.random.choice(self.names))
            for _ in range(self.random.randint(1, 4)):
                self.write(self.random.choice(self.names))

    def columns(self, name: str) -> list[str]:
        self.cursor.execute(f"SHOW COLUMNS FROM `{name}`")
        return [row["Field"] for row in self.cursor.fetchall()]

    def write(self, name: str) -> None:
        """A row with something in each column, and what the server shows of it."""
        self.cursor.execute(f"SHOW COLUMNS FROM `{name}`")
        values = {
            row["Field"]: self.value(row["Type"])
            for row in self.cursor.fetchall()
            if row["Field"] != "id"
        }
        names = ", ".join(f"`{each}`" for each in values)
        marks = ", ".join(["%s"] * len(values))
        self.cursor.execute(f"INSERT INTO `{name}` ({names}) VALUES ({marks})", [*values.values()])
        self.cursor.execute(f"SELECT * FROM `{name}` WHERE id = LAST_INSERT_ID()")
        (row,) = self.cursor.fetchall()
        self.churn.written.setdefault(name, []).append(row)

    def value(self, kind: str) -> object:
        self.count += 1
        if kind.startswith("enum"):
            return self.random.choice("abc")
        if "char" in kind:
            return self.random.choice(("", "été", "x" * 8, None))
        return self.random.choice((0, 1, 120, None))

    def alter(self, name: str) -> None:
        """One statement; all kinds are about equally frequent."""
        columns = [each for each in self.columns(name) if each != "id"]
        self.count += 1
        new, some = f"n{self.count}", self.random.choice(columns)
        kind = self.random.choice(TYPES)
        table = f"ALTER TABLE `{name}`"
        choices = [
            f"{table} ADD COLUMN {new} {kind} FIRST",
            f"{table} ADD COLUMN {new} {kind} AFTER `{some}`",
            f"{table} ADD COLUMN {new} {kind}, ADD INDEX ({new})",
            f"{table} RENAME COLUMN `{some}` TO {new}",
            f"{table} CHANGE `{some}` `{some}` {kind} FIRST",
            f"{table} DROP COLUMN `{some}`, ADD COLUMN {new} {kind}",
            f"{table} CONVERT TO CHARACTER SET utf8mb4",
            f"TRUNCATE TABLE `{name}`",
            "drop",
            "swap",
            "away",
        ]
        self.do(self.random.choice(choices), name, columns)

    def do(self, choice: str, name: str, columns: list[str]) -> None:
        first, second = self.names
        if choice == "drop":
            self.cursor.execute(f"DROP TABLE `{name}`")
            self.cursor.execute(self.random.choice((FIRST, AGAIN)).format(name=name))
            self.churn.altered += 2
            return
        if choice == "swap":
            spare = f"spare{self.churn.number}"
            choice = f"RENAME TABLE {first} TO {spare}, {second} TO {first}, {spare} TO {second}"
        elif choice == "away":
            # The same name with other columns, without a DROP.
            self.cursor.execute(f"RENAME TABLE `{name}` TO gone{self.count}x{self.churn.number}")
            self.churn.altered += 1
            choice = self.random.choice((FIRST, AGAIN)).format(name=name)
        elif "DROP COLUMN" in choice and len(columns) < 2:
            return
        if "CHANGE" in choice:
            # The values fit no other type.
            self.cursor.execute(f"DELETE FROM `{name}`")
        self.cursor.execute(choice)
        self.churn.altered += 1


def churned(
    host: str, port: int, *, threads: int, statements: int
) -> dict[str, list[dict[str, Any]]]:
    """Run so many connections, each with so many statements; what was written, by table."""
    all_ = [Churn(host, port, number, statements) for number in range(threads)]
    errors: list[BaseException] = []

    def run(churn: Churn) -> None:
        try:
            churn.run()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(churn,)) for churn in all_]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]
    return {name: rows for churn in all_ for name, rows in churn.written.items()}
