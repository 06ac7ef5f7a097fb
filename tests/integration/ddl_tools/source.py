"""A server's tables as its binlog maps them, and as its information_schema defines them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql

from connectors.mysql.ddl.definition import Column, Index, Server, Table
from connectors.mysql.table_map import TableMap
from devstack.mysql import Mysql
from tests.golden.load import steps_of
from tests.integration.ddl.truth import truth
from tests.integration.old_mysql.source import charsets_of, end_of
from tests.integration.worker.source import connected, run
from tests.steps import Rows, Step

LEVELS = {
    "9.7": ("FULL", "MINIMAL"),
    "8.0": ("FULL", "MINIMAL"),
    "5.7": ("",),
    "5.6": ("",),
    "mariadb-10.11": ("FULL", "MINIMAL", "NO_LOG"),
    "mariadb-11.8": ("FULL", "MINIMAL", "NO_LOG"),
}
"""Servers, and how much metadata each can be told to write; before 8.0 there is none."""


def is_mariadb(mysql: Mysql) -> bool:
    """Whether it is one, by the folder that the fixture gave it."""
    return "mariadb" in mysql.data.parent.name


def server_of(mysql: Mysql) -> Server:
    """What a definition's reader has to know of the server."""
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@version, @@lower_case_table_names")
        version, lower = cursor.fetchone()
    first, second, third = version.split("-")[0].split(".")
    return Server(
        version=(int(first), int(second), int(third)),
        mariadb=is_mariadb(mysql),
        lower_case_table_names=int(lower),
    )


@contextmanager
def telling(mysql: Mysql, level: str) -> Iterator[None]:
    """The server writes so much metadata meanwhile."""
    if not level:
        yield
        return
    with connected(mysql) as cursor:
        cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
        before = cursor.fetchone()[0]
    run(mysql, f"SET GLOBAL binlog_row_metadata = '{level}'")
    try:
        yield
    finally:
        run(mysql, f"SET GLOBAL binlog_row_metadata = '{before}'")


def steps(mysql: Mysql, *statements: str) -> list[Step]:
    """Run statements in one session and give the steps that the binlog's file holds of them."""
    begin = end_of(mysql)
    run(mysql, *statements)
    end = end_of(mysql)
    assert begin.file == end.file
    return steps_of(
        mysql.data / end.file,
        charsets_of(mysql),
        begin=begin.pos,
        end=end.pos,
        mariadb=is_mariadb(mysql),
    )


def map_of(mysql: Mysql, *statements: str) -> TableMap:
    """The table map of the last rows that the statements write."""
    return [step.table_map for step in steps(mysql, *statements) if isinstance(step, Rows)][-1]


_VERSIONED = """\
SELECT table_type = 'SYSTEM VERSIONED'
  FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"""
_EXTRA = """\
SELECT column_name, extra, generation_expression
  FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"""


def table_of(mysql: Mysql, database: str, name: str) -> Table:
    """A table as information_schema defines it now."""
    with connected(mysql) as cursor:
        _also_generated_keys(cursor)
        seen = truth(cursor).tables[database, name]
        cursor.execute(f"SHOW INDEX FROM `{database}`.`{name}`")
        indexes = defaultdict(list)
        for _, not_unique, index, _, column, _, _, prefix, *_ in cursor.fetchall():
            indexes[index].append((column, not_unique, prefix))
        cursor.execute(_VERSIONED, (database, name))
        (versioned,) = cursor.fetchone()
        rows_of_periods = dict(_periods(cursor, database, name)) if is_mariadb(mysql) else {}
    collation = seen.collation or ""
    return Table(
        columns=tuple(
            Column(
                name=column.name,
                type=column.type,
                nullable=column.nullable,
                charset=column.charset,
                collation=column.collation,
                generated=column.generated,  # type: ignore[arg-type]  # virtual, stored or None
                invisible=column.invisible,
                definition=rows_of_periods.get(column.name, ""),
            )
            for column in seen.columns
        ),
        indexes=tuple(
            Index(
                name=index,
                columns=tuple(part[0] or "" for part in parts),
                unique=not int(parts[0][1]),
                prefixed=any(part[2] is not None for part in parts),
            )
            for index, parts in indexes.items()
        ),
        charset=collation.partition("_")[0],
        collation=collation,
        options="WITH SYSTEM VERSIONING" if versioned else "",
    )


def _periods(cursor: Any, database: str, name: str) -> Iterator[tuple[str, str]]:
    cursor.execute(_EXTRA, (database, name))
    for column, _, expression in cursor.fetchall():
        if expression in ("ROW START", "ROW END"):
            yield column, f"GENERATED ALWAYS AS {expression}"


def _also_generated_keys(cursor: Any) -> None:
    try:
        cursor.execute("SET SESSION show_gipk_in_create_table_and_information_schema = ON")
    except pymysql.MySQLError as error:
        if error.args[0] != _UNKNOWN_VARIABLE:
            raise


_UNKNOWN_VARIABLE = 1193
