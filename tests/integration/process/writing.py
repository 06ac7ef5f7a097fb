"""An application that writes to a table while a tool changes it.

Invariant: the expected rows are those that the server confirmed to the application, in that order; it does not
know the tools, and waits while the table is locked or missing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType

import pymysql

from devstack.mysql import Mysql

Written = tuple[str, int, str | None]
"""The ``op``, the row's id, and its amount after the change."""

FIRST_ID = 1000
_DEADLOCK, _TIMEOUT, _NO_TABLE = 1213, 1205, 1146


@dataclass(slots=True)
class Writer:
    """Writes to ``osc.orders`` until it is left; its rows have ids of their own."""

    mysql: Mysql
    written: list[Written] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def __enter__(self) -> Writer:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def until(self, more: int) -> None:
        """Wait until it has written so much more."""
        wanted = len(self.written) + more
        while len(self.written) < wanted:
            if self._error is not None:
                raise self._error
            self._over.wait(0.01)

    def _run(self) -> None:
        mysql = self.mysql
        try:
            connection = pymysql.connect(
                host=mysql.host, port=mysql.port, user="root", database="osc", autocommit=True
            )
            with connection, connection.cursor() as cursor:
                number = FIRST_ID
                while not self._over.is_set():
                    self._write(cursor, number)
                    number += 1
        except BaseException as error:
            self._error = error

    def _write(self, cursor: pymysql.cursors.Cursor, number: int) -> None:
        amount = f"{number % 97}.25"
        insert = "INSERT INTO orders (id, customer, amount) VALUES (%s, 'writer', %s)"
        self._do(cursor, "c", number, amount=amount, sql=insert, values=(number, amount))
        if number % 3 == 0:
            other, amount = number - 1, f"{number}.75"
            update = "UPDATE orders SET amount = %s WHERE id = %s"
            self._do(cursor, "u", other, amount=amount, sql=update, values=(amount, other))
        if number % 5 == 0:
            other = number - 2
            delete = "DELETE FROM orders WHERE id = %s"
            self._do(cursor, "d", other, amount=None, sql=delete, values=(other,))
        self._over.wait(0.002)

    def _do(
        self,
        cursor: pymysql.cursors.Cursor,
        op: str,
        id_: int,
        *,
        amount: str | None,
        sql: str,
        values: tuple[object, ...],
    ) -> None:
        while not self._over.is_set():
            try:
                cursor.execute(sql, values)
            except pymysql.MySQLError as error:
                if error.args[0] not in (_DEADLOCK, _TIMEOUT, _NO_TABLE):
                    raise
                self._over.wait(0.005)
                continue
            if cursor.rowcount:
                self.written.append((op, id_, amount))
            return
