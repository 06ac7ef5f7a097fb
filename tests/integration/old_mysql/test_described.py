"""Table maps completed from ``information_schema`` equal those of ``binlog_row_metadata=FULL``."""

from dataclasses import replace

import pytest

from connectors.errors import DefinitionMismatch, UnsupportedEvent
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.schema.table_map_completion import described
from connectors.mysql.types.registry import FieldType
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.definitions import read_definition
from tests.harness.servers import Servers
from tests.harness.sql import connected, run
from tests.integration.old_mysql.families import known
from tests.integration.old_mysql.source import charsets_of, complete, written
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.source import end_of
from tests.steps import Rows

DATABASE = "described"
SHAPES = {
    "simple": "id int, name text, PRIMARY KEY (id)",
    "other_order": "a int, b int, c int, PRIMARY KEY (c, a)",
    "prefix": "a varchar(80), b varbinary(80), c int, PRIMARY KEY (b(10), c, a(5))",
    "no_key": "a int, b int, UNIQUE (a)",
    "generated": "a int, v int AS (a + 1), s int AS (a + 2) STORED, PRIMARY KEY (a)",
    "hidden": "a int, b int INVISIBLE DEFAULT 7, name varchar(9), PRIMARY KEY (a), INDEX ((a + b))",
    "quoted": "`a.b` int, `ключ` varchar(3) NOT NULL, e enum('it''s','A,b') NOT NULL, PRIMARY KEY (`a.b`)",
    "labels": r"e enum('\\','\n','\r','\0','''','a,b','a'',''b','(',')','%') NOT NULL, s set('ü','中','\'')",
    "charsets": "e enum('ä','€') CHARACTER SET latin1, s set('中','文') CHARACTER SET gbk,"
    " u enum('ß','x') CHARACTER SET utf16, g enum('ḿ','b') CHARACTER SET gb18030,"
    " b enum('碁','功') CHARACTER SET big5, k set('ё','я') CHARACTER SET koi8r, n enum('a','b') BINARY,"
    " y enum('a','b') CHARACTER SET binary",
    "widths": "a int(5) unsigned zerofill, b bool, c float(7,3), d double(9,2) unsigned, e year, f bit(9),"
    " g char(0), h tinyint(3) zerofill, i decimal(7) zerofill, j numeric(65,30), k real",
    "kept_key": "a int",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(stack.mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")


def maps_of(mysql: Mysql, *statements: str) -> list[TableMap]:
    return [step.table_map for step in written(mysql, *statements) if isinstance(step, Rows)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_map_of_every_type_is_completed_to_what_full_metadata_says(
    stack: Stack, family: str
) -> None:
    table = f"{DATABASE}.{family}"
    bare, full = both(stack.mysql, table, statements_for(table, FAMILIES[family]()))
    assert all(column.name is None for column in bare.columns)
    assert completed(stack.mysql, bare, full) == full


@pytest.mark.parametrize("name", SHAPES)
def test_keys_labels_and_hidden_columns_are_completed_to_what_full_metadata_says(
    stack: Stack, name: str
) -> None:
    table = f"{DATABASE}.{name}"
    bare, full = both(
        stack.mysql,
        table,
        [
            "SET SESSION sql_mode = '', sql_generate_invisible_primary_key = ON"
            if name == "kept_key"
            else "SET SESSION sql_mode = ''",
            f"CREATE TABLE {table} ({SHAPES[name]})",
            f"INSERT INTO {table} () VALUES ()",
        ],
    )
    assert completed(stack.mysql, bare, full) == full


def both(mysql: Mysql, table: str, statements: list[str]) -> tuple[TableMap, TableMap]:
    """The map of a table that the statements fill, with the least metadata and with all of it."""
    run(mysql, "SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        bare = maps_of(mysql, *statements)[-1]
    finally:
        run(mysql, "SET GLOBAL binlog_row_metadata = 'FULL'")
    return bare, maps_of(mysql, f"DELETE FROM {table}")[-1]


def completed(mysql: Mysql, bare: TableMap, full: TableMap) -> TableMap:
    return replace(complete(mysql, bare), table_id=full.table_id)


@pytest.mark.parametrize("family", [*FAMILIES, "signs"])
def test_the_first_series_with_metadata_gives_the_same(servers: Servers, family: str) -> None:
    mysql, table = servers("8.0"), f"{DATABASE}.{family}"
    run(mysql, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    columns = SIGNS if family == "signs" else known("8.0", family)
    bare, full = both(mysql, table, statements_for(table, columns))
    # It does not have that YEAR has no sign, nor whether a column is visible.
    result = tuple(
        replace(
            column,
            visible=True,
            unsigned=True if column.type == FieldType.YEAR else column.unsigned,
        )
        for column in full.columns
    )
    assert completed(mysql, bare, full) == replace(full, columns=result)


SIGNS = [
    (kind, ["1"])
    for kind in (
        "tinyint unsigned", "year", "int", "decimal(5,2) unsigned", "double unsigned", "bigint", "year",
        "float",
    )
]  # fmt: skip


def test_the_definition_holds_at_the_position_that_it_comes_with(stack: Stack) -> None:
    table = f"{DATABASE}.placed"
    run(stack.mysql, f"CREATE TABLE {table} (a int primary key)")
    with connected(stack.mysql) as cursor:
        found = read_definition(cursor, DATABASE, "placed")
    assert found.at == end_of(stack.mysql)
    assert [column.name for column in found.columns] == ["a"]
    run(stack.mysql, f"ALTER TABLE {table} ADD COLUMN b int")
    with connected(stack.mysql) as cursor:
        later = read_definition(cursor, DATABASE, "placed")
        # Nothing of it stays locked.
        run(stack.mysql, f"ALTER TABLE {table} DROP COLUMN b")
    assert later.at.order > found.at.order
    assert [column.name for column in later.columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("ADD COLUMN d int", "its rows have 3 columns, its definition has 4"),
        ("MODIFY a bigint", "column 'a' is int in its rows, bigint defined"),
        ("MODIFY b varchar(90)", r"column 'b' is varchar\(80\) in its rows, varchar\(90\) defined"),
        ("MODIFY b varchar(80) NOT NULL", "column 'b' is nullable in its rows, NOT NULL defined"),
        ("MODIFY c int", "column 'c' is enum in its rows, int defined"),
        ("MODIFY a enum('x')", "column 'a' is int in its rows, enum.* defined"),
        ("MODIFY c set('x','y')", "column 'c' is enum in its rows, set defined"),
    ],
)
def test_a_definition_that_is_not_that_of_the_rows_is_refused_by_what_differs(
    stack: Stack, change: str, what: str
) -> None:
    table = f"{DATABASE}.changed"
    bare, _ = both(
        stack.mysql,
        table,
        [
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (a int, b varchar(80), c enum('x','y'))",
            f"INSERT INTO {table} VALUES (1, 'b', 'x')",
        ],
    )
    run(stack.mysql, f"ALTER TABLE {table} {change}")
    with pytest.raises(DefinitionMismatch, match=what) as caught:
        complete(stack.mysql, bare)
    assert caught.value.context["table"] == table


def test_a_label_that_the_server_cannot_print_is_refused(stack: Stack) -> None:
    table = f"{DATABASE}.emoji"
    bare, full = both(
        stack.mysql,
        table,
        [f"CREATE TABLE {table} (e enum('😀','b'))", f"INSERT INTO {table} VALUES (1)"],
    )
    assert full.columns[0].labels == ("😀".encode(), b"b")
    with pytest.raises(UnsupportedEvent, match="cannot print"):
        complete(stack.mysql, bare)


def test_a_definition_of_another_table_is_refused(stack: Stack) -> None:
    table = f"{DATABASE}.mine"
    bare, _ = both(
        stack.mysql,
        table,
        [
            f"CREATE TABLE {table} (p point)",
            f"INSERT INTO {table} VALUES (ST_GeomFromText('POINT(1 2)'))",
        ],
    )
    run(stack.mysql, f"CREATE TABLE {DATABASE}.theirs (p json)")
    with connected(stack.mysql) as cursor:
        wrong = read_definition(cursor, DATABASE, "theirs")
    with pytest.raises(
        DefinitionMismatch, match="column 'p' is geometry in its rows, json defined"
    ):
        described(bare, wrong.columns, charsets_of(stack.mysql))
