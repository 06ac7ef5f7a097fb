"""MariaDB's hash columns for long unique keys: rows contain them, records do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables, Schema
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import Column, Index, Server, Table
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.history import CHARSETS

MARIADB, MYSQL = Server(version=(11, 8, 3), mariadb=True), Server(version=(9, 7, 4))
NAME = ("shop", "t")
A = MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name="a", unsigned=False)
HASH = MappedColumn(
    type=FieldType.LONGLONG, metadata=0, nullable=True, name="DB_ROW_HASH_1", unsigned=True
)
INT = Column(name="a", type="int", nullable=True)
OWN = Column(name="DB_ROW_HASH_1", type="bigint unsigned", nullable=True)
KEY = Index(name="a", columns=("a",), unique=True, options="USING HASH")
HEAD, WRITE, DELETE = bytes(8), 23, 25
ROW = b"\0" + (7).to_bytes(4, "little") + (99).to_bytes(8, "little")


def book(known: Table | None, server: Server) -> CapturedTables:
    held: dict[tuple[str, str], Schema] = {} if known is None else {NAME: known}
    return CapturedTables(Routes(prefix="aq"), CHARSETS, server=server, known=held)


def met(*columns: MappedColumn, known: Table | None, server: Server = MARIADB) -> CapturedTable:
    table_map = TableMap(table_id=1, database=NAME[0], table=NAME[1], columns=columns)
    found = book(known, server).of(table_map)
    assert isinstance(found, CapturedTable)
    return found


def table(*columns: Column) -> Table:
    return Table(columns=columns, indexes=(KEY,), charset="latin1", collation="latin1_swedish_ci")


BARE = [replace(one, name=None, unsigned=None) for one in (A, HASH)]


@pytest.mark.parametrize(
    ("columns", "known"),
    [([A, HASH], None), ([A, HASH], table(INT)), (BARE, table(INT))],
)
def test_a_hash_is_in_no_record_and_in_no_schema(
    columns: list[MappedColumn], known: Table | None
) -> None:
    found = met(*columns, known=known)
    assert [column.name for column in found.definition.columns] == ["a"]
    ((_, after, *_),) = found.rows(WRITE, HEAD + b"\x02\x03" + ROW)
    assert after == '{"a":7}'
    with_null = b"\x01" + (99).to_bytes(8, "little")
    rows = found.rows(DELETE, HEAD + b"\x02\x03" + ROW + with_null + ROW)
    assert [before for before, *_ in rows] == ['{"a":7}', '{"a":null}', '{"a":7}']
    # An image without it lacks nothing that anybody knows of.
    ((_, after, _, _, absent),) = found.rows(WRITE, HEAD + b"\x02\x01" + ROW[:5])
    assert (after, absent) == ('{"a":7}', None)


@pytest.mark.parametrize(
    ("known", "server"),
    [(table(INT, OWN), MARIADB), (table(INT, OWN), MYSQL), (None, MYSQL)],
)
def test_a_column_of_a_user_that_is_called_so_is_published(
    known: Table | None, server: Server
) -> None:
    found = met(A, HASH, known=known, server=server)
    assert [column.name for column in found.definition.columns] == ["a", "DB_ROW_HASH_1"]
    ((_, after, *_),) = found.rows(WRITE, HEAD + b"\x02\x03" + ROW)
    assert after == '{"a":7,"DB_ROW_HASH_1":99}'
