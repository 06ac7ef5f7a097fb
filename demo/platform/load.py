"""The load on one master: transactions on its shards, until it is stopped.

Orders enter and leave the second mapping's filter, move to another key, are paid, corrected and deleted; some
transactions write to two shards, some are rolled back.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from decimal import Decimal

import pymysql

from demo.load import LoadFailed, Server
from demo.platform.shards import items, orders

_TABLE_CHANGED = 1412
_MOVED = 1_000_000
"""Added to the id of an order that gets another key."""
_STATES = ("new", "paid", "sent")

Statement = tuple[str, tuple[object, ...]]


class Writer(threading.Thread):
    """One connection that writes to a master's shards at a steady pace."""

    def __init__(self, server: Server, shards: range, *, per_second: float) -> None:
        """``per_second``: transactions."""
        super().__init__(name=f"writer of {shards}", daemon=True)
        self._server, self._pause = server, 1 / per_second
        self._orders = {shard: _Orders(shard) for shard in shards}
        self._random = random.Random(shards.start)
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self.committed = 0
        """Transactions."""

    def run(self) -> None:
        """Write until the end."""
        try:
            with self._server.connect() as connection:
                while not self._stopping.wait(self._pause):
                    self._commit(connection)
        except Exception as error:  # raised by the next check
            self._error = error

    def check(self) -> None:
        """Raise LoadFailed if a transaction failed."""
        if self._error is not None:
            raise LoadFailed(f"the load on {self.name} failed: {self._error}")

    def stop(self) -> None:
        """End the load with a whole transaction."""
        self._stopping.set()
        self.join()
        self.check()

    def _commit(self, connection: pymysql.Connection) -> None:
        chosen = self._random.sample(sorted(self._orders), 2 if self._random.random() < 0.1 else 1)
        plan = [one for shard in chosen for one in self._orders[shard].next(self._random)]
        is_kept = self._random.random() > 0.05
        while not self._run(connection, plan, is_kept=is_kept):
            pass
        for shard in chosen:
            self._orders[shard].end(is_kept=is_kept)
        self.committed += is_kept

    def _run(self, connection: pymysql.Connection, plan: list[Statement], *, is_kept: bool) -> bool:
        """Run a transaction; return False if a table was altered within it."""
        try:
            with connection.cursor() as cursor:
                for sql, values in plan:
                    cursor.execute(sql, values)
        except pymysql.OperationalError as error:
            connection.rollback()
            if error.args[0] != _TABLE_CHANGED:
                raise
            return False
        if is_kept:
            connection.commit()
        else:
            connection.rollback()
        return True


class _Orders:
    """The orders of one shard, as its writer knows them."""

    def __init__(self, shard: int) -> None:
        self._table, self._items = orders(shard), items(shard)
        self._totals: dict[int, Decimal] = {}
        self._next, self._planned = 1, dict[int, Decimal]()

    def next(self, dice: random.Random) -> Iterator[Statement]:
        """Yield the statements of a transaction."""
        self._planned = dict(self._totals)
        for _ in range(dice.randint(1, 3)):
            number, self._next = self._next, self._next + 1
            total = _total(dice)
            yield (
                f"INSERT INTO {self._table} (id, customer, total, status) VALUES (%s, %s, %s, 'new')",
                (number, dice.randint(1, 99), total),
            )
            yield (
                f"INSERT INTO {self._items} VALUES (%s, %s, %s)",
                (number, number, f"sku-{dice.randint(1, 50)}"),
            )
            self._planned[number] = total
        for change in (self._state, self._note, self._correct, self._move, self._delete):
            if self._totals and dice.random() < 0.4:
                number = dice.choice([*self._totals])
                if number in self._planned:
                    yield from change(number, dice)

    def end(self, *, is_kept: bool) -> None:
        """Keep what the last transaction has changed, or forget it."""
        if is_kept:
            self._totals = self._planned

    def _state(self, number: int, dice: random.Random) -> Iterator[Statement]:
        yield f"UPDATE {self._table} SET status = %s WHERE id = %s", (dice.choice(_STATES), number)

    def _note(self, number: int, dice: random.Random) -> Iterator[Statement]:
        note = dice.choice([None, "", "naïve ☃", 'a "quoted", one'])
        yield f"UPDATE {self._table} SET note = %s WHERE id = %s", (note, number)

    def _correct(self, number: int, dice: random.Random) -> Iterator[Statement]:
        self._planned[number] = _total(dice)
        yield (
            f"UPDATE {self._table} SET total = %s WHERE id = %s",
            (self._planned[number], number),
        )

    def _move(self, number: int, _dice: random.Random) -> Iterator[Statement]:
        if number < _MOVED:
            self._planned[number + _MOVED] = self._planned.pop(number)
            yield f"UPDATE {self._table} SET id = id + {_MOVED} WHERE id = %s", (number,)

    def _delete(self, number: int, _dice: random.Random) -> Iterator[Statement]:
        del self._planned[number]
        yield f"DELETE FROM {self._table} WHERE id = %s", (number,)
        yield f"DELETE FROM {self._items} WHERE id = %s", (number % _MOVED,)


def _total(dice: random.Random) -> Decimal:
    """Often none at all, so that the filter has something to omit."""
    return Decimal(dice.choice([0, 0, *range(1, 90_000, 997)])) / 100
