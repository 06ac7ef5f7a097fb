"""SQL on a test's server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pymysql

from devstack.mysql import Mysql


@contextlib.contextmanager
def connected(mysql: Mysql, **more: Any) -> Iterator[Any]:
    """A cursor of root that commits each statement."""
    settings = {"user": "root", "charset": "utf8mb4", "autocommit": True} | more
    if "password" not in settings:
        # PyMySQL would read the machine's list of authorities each time, which takes 40 ms.
        settings.setdefault("ssl_disabled", True)
    connection = pymysql.connect(host=mysql.host, port=mysql.port, **settings)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def run(mysql: Mysql, *statements: str, **more: Any) -> None:
    """Run statements in one session."""
    with connected(mysql, **more) as cursor:
        for statement in statements:
            cursor.execute(statement)


def ask(mysql: Mysql, *statements: str, **more: Any) -> Sequence[Any]:
    """Run statements in one session; returns the rows of the last one."""
    with connected(mysql, **more) as cursor:
        for statement in statements:
            cursor.execute(statement)
        found: Sequence[Any] = cursor.fetchall()
        return found
