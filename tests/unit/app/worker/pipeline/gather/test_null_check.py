"""Tables on the inner side of an outer join, of which a TABLE_MAP marks all columns as nullable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables, Schema
from app.worker.pipeline.version_book import VersionBook
from connectors.errors import WitnessesDiffer
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import Database, Server, Table
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.rules.routes.routes import Routes
from tests.made import SERVER
from tests.unit.app.worker.pipeline.history import CHARSETS

NAME = ("shop", "t")
A = MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name="a", unsigned=False)
PLAIN = TableMap(
    table_id=1,
    database=NAME[0],
    table=NAME[1],
    columns=(A, replace(A, name="b"), replace(A, name="c", nullable=True)),
    primary_key=(0,),
)
UTF8MB4 = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
DEFINED = adopted(PLAIN, CHARSETS, database=UTF8MB4)
MYSQL = Server(version=(8, 0, 36))
SEVEN = (7).to_bytes(4, "little")
HEAD, WRITE = bytes(8) + b"\x02\x00\x03\x07", 30


def joined(table_map: TableMap) -> TableMap:
    columns = tuple(replace(one, nullable=True) for one in table_map.columns)
    return replace(table_map, columns=columns)


def bare(table_map: TableMap) -> TableMap:
    columns = tuple(replace(one, name=None, unsigned=None) for one in table_map.columns)
    return replace(table_map, columns=columns, primary_key=None)


def met(table_map: TableMap, known: Table | None, server: Server = MYSQL) -> CapturedTable:
    held: dict[tuple[str, str], Schema] = {} if known is None else {NAME: known}
    book = CapturedTables(Routes(prefix="aq"), CHARSETS, server=server, known=held)
    found = book.of(table_map)
    assert isinstance(found, CapturedTable)
    return found


@pytest.mark.parametrize("table_map", [PLAIN, joined(PLAIN), bare(PLAIN), bare(joined(PLAIN))])
def test_a_table_has_the_same_version_whichever_statement_changed_it(table_map: TableMap) -> None:
    found = met(table_map, DEFINED)
    assert [column.nullable for column in found.definition.columns] == [False, False, True]
    ((_, after, *_),) = found.rows(WRITE, HEAD + b"\x04" + SEVEN + SEVEN)
    assert after == '{"a":7,"b":7,"c":null}'


def test_a_null_where_the_definition_has_none_is_refused_unless_the_key_proves_the_join() -> None:
    with_null = HEAD + b"\x06" + SEVEN
    keyless = replace(DEFINED, indexes=())
    for result, known in (
        (bare(joined(PLAIN)), DEFINED),
        (joined(replace(PLAIN, primary_key=None)), keyless),
    ):
        assert met(result, known).rows(WRITE, HEAD + b"\x04" + SEVEN + SEVEN)
        with pytest.raises(WitnessesDiffer, match="column 'b' is NULL in a row, NOT NULL defined"):
            met(result, known).rows(WRITE, with_null)


def test_a_table_without_history_keeps_its_version_over_an_outer_join() -> None:
    book = VersionBook("shop", known={})
    transaction = Transaction("b.000001", 4, None, 0, SERVER, 1, 1)
    numbers = []
    for table_map in (PLAIN, joined(PLAIN), PLAIN):
        table = met(table_map, None)
        version, _ = book.at(
            table.route, table.definition, transaction, 4, shows_not_null=table.shows_not_null
        )
        numbers.append(version.version)
        assert version.definition == met(PLAIN, None).definition
    assert numbers == [1, 1, 1]


def test_a_definition_taken_from_an_outer_join_has_the_nullability_known_before() -> None:
    before = {column.name: column.nullable for column in DEFINED.columns}
    assert adopted(joined(PLAIN), CHARSETS, database=UTF8MB4, nullable=before) == DEFINED
    alone = adopted(joined(PLAIN), CHARSETS, database=UTF8MB4)
    assert [column.nullable for column in alone.columns] == [False, True, True]
