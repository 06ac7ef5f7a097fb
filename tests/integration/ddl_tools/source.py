"""A server's tables as its binlog maps them, and as its information_schema defines them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.schema.definition_check import completed_map
from connectors.mysql.schema.hidden_columns import row_hashes
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.schema.server_columns import prepare
from devstack.mysql import Mysql
from tests.golden.load import steps_of
from tests.harness.sql import connected, run
from tests.hostile import quoted
from tests.integration.old_mysql.source import charsets_of
from tests.integration.worker.source import end_of
from tests.steps import Rows, Step

LEVELS = {
    "9.7": ("FULL", "MINIMAL"),
    "8.0": ("FULL", "MINIMAL"),
    "5.7": ("",),
    "5.6": ("",),
    "mariadb-10.11": ("FULL", "NO_LOG"),
    "mariadb-11.8": ("FULL", "MINIMAL", "NO_LOG"),
}
"""Servers, and the metadata settings of each; before 8.0 there are none."""


def is_mariadb(mysql: Mysql) -> bool:
    """Whether it is one, by the folder that the fixture gave it."""
    return "mariadb" in mysql.data.parent.name


def server_of(mysql: Mysql) -> Server:
    """The server's properties that a definition's reader needs."""
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
def recording_metadata(mysql: Mysql, level: str) -> Iterator[None]:
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


def table_of(mysql: Mysql, database: str, name: str) -> Table:
    """A table as information_schema defines it now, its keys in the order that the server has them in."""
    with connected(mysql) as cursor:
        prepare(cursor)
        reader = InventoryReader(cursor, server_of(mysql))
        table = reader.some([(database, name)]).tables[database, name]
        cursor.execute(f"SHOW INDEX FROM {quoted(database)}.{quoted(name)}")
        order = [row[2] for row in cursor.fetchall()]
    return replace(table, indexes=tuple(sorted(table.indexes, key=lambda i: order.index(i.name))))


def columns_before(
    mysql: Mysql, database: str, name: str, rows: Rows
) -> tuple[list[bool], TableMap, frozenset[int]]:
    """Which columns the first image of some rows has, their completed table map, and its row hashes.

    MariaDB leaves row hashes out of some images.
    """
    charsets, server = charsets_of(mysql), server_of(mysql)
    table = table_of(mysql, database, name)
    mapped = completed_map(rows.table_map, table, charsets, server=server)
    present = RowDecoder(mapped, charsets).columns_before(rows.event_type, rows.body)
    return present, mapped, row_hashes(mapped, table, server=server)


def collations(table_map: TableMap, table: Table, charsets: Charsets) -> list[str]:
    """Columns whose collation is another one than the definition's."""
    return [
        f"column {column.name!r} has collation {result} in its rows, {column.collation} defined"
        for mapped, column in zip(table_map.columns, table.columns, strict=False)
        if mapped.collation is not None
        and column.collation is not None
        and (result := charsets.collation(mapped.collation)) is not None
        and present(result) != present(column.collation)
    ]


def present(collation: str) -> str:
    """A collation's name as newer servers have it."""
    return collation.replace("utf8_", "utf8mb3_")
