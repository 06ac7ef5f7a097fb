"""Writers on the source: small and large transactions, key changes, deletes, some rolled back.

Invariant: their statements follow from a seed; they wait for an unavailable server; which transactions were
committed is read from the binlog, never from them.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pymysql
from pymysql.connections import Connection

TABLES = ("goods", "moves")
SCHEMA = (
    "CREATE DATABASE shop",
    *(
        f"CREATE TABLE shop.{table} (id BIGINT PRIMARY KEY, n INT NOT NULL, v VARCHAR(400))"
        for table in TABLES
    ),
    "INSERT INTO shop.goods VALUES (1, 0, 'hot'), (2, 0, 'hot'), (3, 0, 'hot')",
)
_HOT = (1, 2, 3)
_OWN = 10_000_000
_LARGE = 400
Connect = Callable[[], Connection]
Statement = tuple[str, tuple[object, ...]]


@dataclass(slots=True)
class Writer:
    """Plans one writer's transactions; rows of others it leaves alone, but for the hot ones."""

    number: int
    rng: random.Random
    last: int = 0
    alive: list[tuple[str, int]] = field(default_factory=list)

    def plan(self) -> tuple[list[Statement], bool]:
        """The next transaction, and whether it is committed."""
        kind = self.rng.choices(
            ("insert", "update", "delete", "move", "mixed", "large"), (40, 30, 10, 6, 12, 2)
        )[0]
        commits = self.rng.random() > 0.05
        if kind == "insert" or not self.alive:
            return self._inserts(self.rng.randint(1, 12)), commits
        if kind == "large":
            return self._inserts(self.rng.randint(_LARGE // 2, _LARGE)), commits
        if kind == "mixed":
            return [*self._updates(2), *self._inserts(3), *self._deletes(1)], commits
        if kind == "move":
            return self._moves(), commits
        return (self._updates(4) if kind == "update" else self._deletes(3)), commits

    def _inserts(self, count: int) -> list[Statement]:
        table, rows = self.rng.choice(TABLES), []
        for _ in range(count):
            self.last += 1
            row = _OWN * self.number + self.last
            self.alive.append((table, row))
            rows += [row, self.rng.randrange(1000), self._text()]
        values = ", ".join(["(%s, %s, %s)"] * count)
        return [(f"INSERT INTO shop.{table} VALUES {values}", tuple(rows))]

    def _updates(self, count: int) -> list[Statement]:
        hot = self.rng.choice(_HOT)
        first: Statement = ("UPDATE shop.goods SET n = n + 1 WHERE id = %s", (hot,))
        chosen = [self.rng.choice(self.alive) for _ in range(count)]
        return [
            first,
            *(
                (f"UPDATE shop.{table} SET n = n + 1, v = %s WHERE id = %s", (self._text(), row))
                for table, row in chosen
            ),
        ]

    def _deletes(self, count: int) -> list[Statement]:
        gone = [
            self.alive.pop(self.rng.randrange(len(self.alive)))
            for _ in range(min(count, len(self.alive)))
        ]
        return [(f"DELETE FROM shop.{table} WHERE id = %s", (row,)) for table, row in gone]

    def _moves(self) -> list[Statement]:
        table, row = self.alive.pop(self.rng.randrange(len(self.alive)))
        self.last += 1
        new = _OWN * self.number + self.last
        self.alive.append((table, new))
        return [(f"UPDATE shop.{table} SET id = %s WHERE id = %s", (new, row))]

    def _text(self) -> str:
        return "".join(self.rng.choices("abcdefghij ", k=self.rng.randint(5, 160)))


class Load:
    """Writers at work in threads, until they are stopped."""

    def __init__(self, connect: Connect, *, seed: int, writers: int = 2, pause: float = 0.12):
        self._connect = connect
        self._pause = pause
        self._stop = threading.Event()
        self._may = threading.Event()
        self._may.set()
        self._between = [threading.Event() for _ in range(writers)]
        self.committed = 0
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(
                target=self._work, args=(Writer(n, random.Random(seed * 31 + n)),), daemon=True
            )
            for n in range(1, writers + 1)
        ]

    def start(self) -> None:
        """Let them write, if they do not yet."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def hold(self) -> None:
        """Let each finish its transaction and pause after it."""
        for one in self._between:
            one.clear()
        self._may.clear()
        for one in self._between:
            assert one.wait(30), "a writer does not come to the end of its transaction"

    def proceed(self) -> None:
        """Resume the held writers."""
        self._may.set()

    @contextlib.contextmanager
    def slower(self, times: float) -> Iterator[None]:
        """Let them wait so many times as long between transactions, within the block."""
        pause, self._pause = self._pause, times * self._pause
        try:
            yield
        finally:
            self._pause = pause

    def stop(self) -> None:
        """Let each finish what it does; raises what went wrong with one."""
        self._stop.set()
        self._may.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)
        if self.errors:
            raise self.errors[0]

    def _work(self, writer: Writer) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with self._connect() as connection:
                        self._write(writer, connection)
                except (pymysql.OperationalError, pymysql.InterfaceError, OSError):
                    self._stop.wait(0.3)  # it is away, or wants it tried again
        except Exception as error:
            self.errors.append(error)

    def _write(self, writer: Writer, connection: Connection) -> None:
        while not self._stop.is_set():
            if not self._may.is_set():
                self._between[writer.number - 1].set()
                self._may.wait()
            statements, commits = writer.plan()
            try:
                with connection.cursor() as cursor:
                    for text, values in statements:
                        cursor.execute(text, values)
                (connection.commit if commits else connection.rollback)()
            except pymysql.IntegrityError:
                connection.rollback()  # an earlier try of it was committed after all
            self.committed += commits
            self._stop.wait(self._pause)
