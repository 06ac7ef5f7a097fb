"""The load: the shop's transactions against MySQL at a steady pace, with an exact count of their
changes.

A transaction is counted once it is committed, each statement by the rows that the server reports as
changed: this count is the first of the demo's witnesses, and is independent of the binlog.
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pymysql
from pymysql.connections import Connection

from demo import shop
from demo.errors import DemoError
from demo.shop import Shopper, Transaction

_TRY_AGAIN = {1205, 1213, 1412}  # lock wait timeout, deadlock, table definition has changed
_ADD_COLUMN = "ALTER TABLE orders ADD COLUMN channel VARCHAR(20) NULL AFTER status"


class LoadFailed(DemoError):
    """The load on MySQL failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The address of MySQL, with an account that may write."""

    host: str
    port: int
    user: str = "root"

    def connect(self, database: str | None = None) -> Connection:
        """A connection with times in UTC."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            database=database,
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00'",
        )


class Load:
    """Shoppers at work in threads; `alter` and `bulk` are for the caller."""

    def __init__(self, server: Server, *, rows: int, seconds: float, shoppers: int = 3) -> None:
        self.target = rows
        self._server = server
        self._share = rows / shoppers
        self._pace = self._share / seconds
        self._lock = threading.Lock()
        self._changes: Counter[str] = Counter()
        self._stop = threading.Event()
        self._altered = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._shop, args=(n,), name=f"shopper-{n}", daemon=True)
            for n in range(1, shoppers + 1)
        ]

    @property
    def changes(self) -> Counter[str]:
        """Row changes committed so far, by table."""
        with self._lock:
            return self._changes.copy()

    @property
    def running(self) -> bool:
        """Whether any shopper is still at work; raise if one has failed."""
        if self._errors:
            raise LoadFailed(f"the load on MySQL failed: {self._errors[0]}")
        return any(thread.is_alive() for thread in self._threads)

    def execute(self, transaction: Transaction) -> None:
        """Run a transaction of no shopper; it is counted like theirs."""
        with self._server.connect("shop") as connection:
            self._commit(connection, transaction)

    def start(self) -> None:
        """Start the shoppers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the load; open transactions are finished first."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=10)

    def alter(self) -> None:
        """Add a column to `orders` while the shoppers write to it; they use it from then on."""
        with self._server.connect("shop") as connection, connection.cursor() as cursor:
            cursor.execute(_ADD_COLUMN)
        self._altered.set()

    def bulk(self, lines: int = 1000) -> None:
        """Run one large transaction between the shoppers' small ones."""
        self.execute(shop.bulk(lines))

    def _shop(self, number: int) -> None:
        try:
            with self._server.connect("shop") as connection:
                self._shop_at_pace(Shopper(number), connection)
        except Exception as error:  # shown by the next check of the load
            self._errors.append(error)

    def _shop_at_pace(self, shopper: Shopper, connection: Connection) -> None:
        started, done = time.monotonic(), 0
        while done < self._share and not self._stop.is_set():
            planned = shopper.next(with_channel=self._altered.is_set())
            done += self._commit(connection, planned)
            early_by = done / self._pace - (time.monotonic() - started)
            if early_by > 0:
                self._stop.wait(early_by)

    def _commit(self, connection: Connection, transaction: Transaction) -> int:
        """Run a transaction, again if MySQL asks for it; return the number of rows committed."""
        while True:
            try:
                changed = run(connection, transaction)
            except pymysql.OperationalError as error:
                connection.rollback()
                if error.args[0] not in _TRY_AGAIN:
                    raise
            else:
                with self._lock:
                    self._changes.update(changed)
                return changed.total()


def run(connection: Connection, transaction: Transaction) -> Counter[str]:
    """Run a transaction once; return the rows committed, by table."""
    changed: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for statement in transaction.statements:
            rows = cursor.executemany(statement.sql, statement.rows) or 0
            if statement.kept and transaction.commits:
                changed[statement.table] += rows
    if transaction.commits:
        connection.commit()
    else:
        connection.rollback()
    return changed


def create_schema(server: Server, statements: Sequence[str]) -> None:
    """Create the shop's tables."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
