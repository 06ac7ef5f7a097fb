"""A table map beside a definition, both made by hand; tests/integration/ddl_tools asks real servers."""

from dataclasses import replace
from hashlib import md5
from typing import Any

import pytest

from connectors.errors import DefinitionMismatch
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Column, Index, Server, Table
from connectors.mysql.schema.definition_check import column_definitions, completed_map, differences
from connectors.mysql.schema.table_map_key import depends_on_order, row_key
from connectors.mysql.types.registry import FieldType as T
from connectors.mysql.types.registry import MappedColumn

MYSQL = Server(version=(9, 7, 4))
OLD_MYSQL = Server(version=(8, 0, 16))
MARIADB = Server(version=(11, 8, 3), mariadb=True)
CHARSETS = Charsets(
    {8: "latin1", 33: "utf8mb3", 45: "utf8mb4", 46: "utf8mb4", 63: "binary"},
    {"latin1": 1, "utf8mb3": 3, "utf8mb4": 4, "binary": 1},
    {8: "latin1_swedish_ci", 33: "utf8mb3_general_ci", 45: "utf8mb4_general_ci", 46: "utf8mb4_bin",
     63: "binary"},
)  # fmt: skip
TEXT: dict[str, Any] = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}


def column(name: str, kind: str, **more: Any) -> Column:
    return Column(name=name, type=kind, **({"nullable": True} | more))


def table(*columns: Column, key: str = "", options: str = "", **indexes: list[str]) -> Table:
    found = [Index(name="PRIMARY", columns=tuple(key.split()), unique=True)] if key else []
    found += [
        Index(name=name, columns=tuple(parts), unique=True) for name, parts in indexes.items()
    ]
    return Table(
        columns=columns, indexes=tuple(found), charset="utf8mb4", collation="utf8mb4_bin",
        options=options,
    )  # fmt: skip


def mapped(kind: int, metadata: int = 0, **more: Any) -> MappedColumn:
    return MappedColumn(type=kind, metadata=metadata, **({"nullable": True} | more))


def table_map(*columns: MappedColumn, key: tuple[int, ...] | None = None) -> TableMap:
    return TableMap(table_id=1, database="shop", table="t", columns=columns, primary_key=key)


def described(one: TableMap, other: Table, server: Server = MYSQL) -> list[str]:
    return differences(one, other, CHARSETS, server=server)


A = mapped(T.LONG, name="a", unsigned=False)
B = mapped(T.VARCHAR, 80, name="b", collation=46)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([A, B], [column("a", "int"), column("b", "varchar(20)", **TEXT)], []),
        ([A], [column("a", "int(11) unsigned zerofill")],
         ["column 'a' is int in its rows, int unsigned defined"]),
        ([A, replace(B, nullable=False)],
         [column("a", "int", nullable=False), column("b", "varchar(20)", nullable=False, **TEXT)],
         ["column 'a' is nullable in its rows, NOT NULL defined"]),
        ([replace(A, nullable=False)], [column("a", "int")],
         ["column 'a' is NOT NULL in its rows, nullable defined"]),
        # As an outer join has it.
        ([A, B], [column("a", "int", nullable=False), column("b", "varchar(20)", **TEXT)], []),
        ([A, B], [column("b", "int"), column("a", "int")],
         ["column 1 is 'a' in its rows, 'b' defined", "column 2 is 'b' in its rows, 'a' defined"]),
        ([A, B], [column("a", "int")],
         ["its rows have 2 columns, its definition has 1: 'b' not defined"]),
        ([A], [column("a", "int"), column("c", "int")],
         ["its rows have 1 columns, its definition has 2: 'c' not in its rows"]),
        ([B], [column("b", "varchar(80)", charset="latin1", collation="latin1_swedish_ci")],
         ["column 'b' is varchar(20) in its rows, varchar(80) defined",
          "column 'b' has character set utf8mb4 in its rows, latin1 defined"]),
        ([mapped(T.VARCHAR, 60, name="b", collation=33)],
         [column("b", "varchar(20)", charset="utf8", collation="utf8_general_ci")], []),
        ([mapped(T.VARCHAR, 80, name="b", collation=999)], [column("b", "varchar(20)", **TEXT)], []),
        ([mapped(T.LONG)], [column("a", "int unsigned")], []),
        ([mapped(T.VARCHAR, 80)], [column("b", "varchar(20)", **TEXT)], []),
        ([mapped(T.VARCHAR, 80)], [column("b", "varbinary(80)")], []),
        ([mapped(T.YEAR, unsigned=False)], [column("y", "year(4)")], []),
        ([mapped(T.TIME2, 3)], [column("t", "time(3)")], []),
        ([mapped(T.TIME)], [column("t", "time /* 5.5 binary format */")], []),
        ([mapped(T.GEOMETRY, 4, geometry_type=7)], [column("g", "geometrycollection")], []),
        ([mapped(T.GEOMETRY, 4, geometry_type=1)], [column("g", "polygon")],
         ["column 'g' is point in its rows, polygon defined"]),
        ([mapped(T.JSON, 4)], [column("g", "polygon")], ["column 'g' is json in its rows, polygon defined"]),
        ([mapped(T.LONG, name="a", visible=False)], [column("a", "int")],
         ["column 'a' is INVISIBLE in its rows, visible defined"]),
    ],
)  # fmt: skip
def test_what_differs_is_reported_and_what_is_not_given_does_not_differ(
    one: list[MappedColumn], other: list[Column], expected: list[str]
) -> None:
    assert described(table_map(*one), table(*other)) == expected


def enum(*labels: str) -> MappedColumn:
    return mapped(T.ENUM, 1, name="e", collation=46, labels=tuple(x.encode() for x in labels))


@pytest.mark.parametrize(
    ("rows", "kind", "agree"),
    [
        (enum("a", "it's"), "enum('a','it''s')", True),
        (enum("a", "b"), "enum('a','c')", False),
        (enum("a", "b"), "enum('a')", False),
        (enum("😀", "b?"), "enum('?','b?')", True),
        (enum("😀😀", "b"), "enum('?','b')", False),
        (enum("a"), "set('a')", False),
        (mapped(T.ENUM, 1), "enum('a')", True),
        (mapped(T.ENUM, 2), "enum('a')", False),
        (mapped(T.ENUM, 1), "enum('?')", True),
    ],
)
def test_labels_are_compared_where_they_are_given(
    rows: MappedColumn, kind: str, *, agree: bool
) -> None:
    assert (described(table_map(rows), table(column("e", kind, **TEXT))) == []) is agree


@pytest.mark.parametrize(
    ("key", "other", "agree"),
    [
        ((0,), table(column("a", "int"), key="a"), True),
        ((0,), table(column("a", "int"), key="A"), True),
        (None, table(column("a", "int"), key="a"), False),
        ((0,), table(column("a", "int")), False),
        ((0,), table(column("a", "int", nullable=False), u=["a"]), True),
        ((0,), table(column("a", "int"), u=["a"]), False),
    ],
)
def test_the_key_of_rows_is_the_primary_key_or_one_that_stands_for_it(
    key: tuple[int, ...] | None, other: Table, *, agree: bool
) -> None:
    rows = table_map(replace(A, nullable=other.columns[0].nullable), key=key)
    assert (described(rows, other) == []) is agree


def test_a_key_that_is_a_hash_stands_for_no_primary_key() -> None:
    long = column("t", "varchar(4000)", nullable=False, **TEXT)
    text = column("u", "text", nullable=False, **TEXT)
    short = column("a", "int", nullable=False)
    assert row_key(table(long, short, u=["t"], v=["a"]), CHARSETS) == ("a",)
    assert row_key(table(text, u=["u"]), CHARSETS) == ()


def test_only_where_several_keys_could_stand_for_it_their_order_matters() -> None:
    one, other = column("a", "int", nullable=False), column("b", "int", nullable=False)
    nullable = column("c", "int")
    assert depends_on_order(table(one, other, u=["a"], v=["b"]))
    assert not depends_on_order(table(one, other, key="a", u=["a"], v=["b"]))
    assert not depends_on_order(table(one, nullable, u=["a"], v=["c"]))


HASH = mapped(T.LONGLONG, name="DB_ROW_HASH_1", unsigned=True)
START = mapped(T.TIMESTAMP2, 6, nullable=False, name="row_start")
END = replace(START, name="row_end")
BARE = replace(HASH, name=None, unsigned=None)
"""A hash, or any BIGINT, in a binlog without names."""


def hashed(
    kind: str, *, more: str = "int", options: str = "", parts: tuple[str, ...] = ()
) -> Table:
    """A table of two columns with a unique key of both."""
    text = TEXT if kind.startswith(("varchar", "text")) else {}
    made = table(column("a", kind, **text), column("b", more), u=["a", "b"])
    key = replace(made.indexes[0], options=options, parts=parts)
    return replace(made, indexes=(key,))


@pytest.mark.parametrize(
    ("columns", "other", "agree"),
    [
        ([A, START, END], table(column("a", "int")), True),
        ([A, END, START], table(column("a", "int")), False),
        ([A, HASH], table(column("a", "int"), u=["a"]), True),
        ([A, HASH], table(column("a", "int")), False),
        ([A, START, END, HASH], table(column("a", "int"), u=["a"]), True),
        ([mapped(T.LONG), replace(START, name=None), replace(END, name=None)],
         table(column("a", "int"), options="WITH SYSTEM VERSIONING"), True),
        ([mapped(T.LONG), replace(START, name=None), replace(END, name=None)],
         table(column("a", "int")), False),
        ([mapped(T.LONG), mapped(T.LONG), BARE], hashed("int"), False),
        ([mapped(T.LONG), mapped(T.LONG), BARE], hashed("int", options="USING HASH"), True),
        ([mapped(T.VARCHAR, 200), mapped(T.LONG), BARE], hashed("varchar(50)"), False),
        ([mapped(T.VARCHAR, 800), mapped(T.LONG), BARE], hashed("varchar(200)"), True),
        ([mapped(T.VARCHAR, 500), mapped(T.VARCHAR, 500), BARE],
         hashed("varbinary(500)", more="varbinary(500)"), True),
        ([mapped(T.BLOB, 2), mapped(T.LONG), BARE], hashed("text"), True),
        ([mapped(T.GEOMETRY, 4), mapped(T.LONG), BARE], hashed("linestring"), True),
        ([mapped(T.GEOMETRY, 4), mapped(T.LONG), BARE], hashed("point"), False),
        ([mapped(T.BLOB, 2), mapped(T.LONG), BARE], hashed("text", parts=("(20)", "")), False),
        ([mapped(T.BLOB, 2), mapped(T.LONG), BARE], hashed("text", parts=("(2000) DESC", "")), True),
        ([mapped(T.BLOB, 2), mapped(T.LONG), BARE, BARE], hashed("text"), False),
    ],
)  # fmt: skip
def test_what_mariadb_hides_after_a_table_is_no_difference(
    columns: list[MappedColumn], other: Table, *, agree: bool
) -> None:
    assert (described(table_map(*columns), other, MARIADB) == []) is agree
    assert described(table_map(*columns), other) != []


def test_a_versioned_table_has_its_rows_end_in_the_key() -> None:
    rows = table_map(A, START, END, key=(0, 2))
    other = table(column("a", "int"), key="a")
    assert described(rows, other, MARIADB) == []
    found = column_definitions(rows, other, CHARSETS, server=MARIADB) or ()
    assert [c.name for c in found] == ["a", "row_start", "row_end"]
    assert [c.key_position for c in found] == [1, None, 2]


def test_what_old_mysql_keeps_of_an_expression_is_no_difference() -> None:
    other = table(column("a", "int"), functional_index=["", "a"])
    name = "3bb8c14d415110ac3b3c55ce9108ae2d"
    rows = table_map(A, mapped(T.LONGLONG, name=name, unsigned=False))
    assert described(rows, other, OLD_MYSQL) == []
    assert described(table_map(A, HASH), other, OLD_MYSQL) != []


def test_the_columns_of_expressions_are_where_columns_were_added_after_them() -> None:
    text = {"charset": "latin1", "collation": "latin1_swedish_ci"}
    other = table(
        column("a", "int"), column("b", "varchar(80)", **text), column("c", "int"), i=["", "a", ""]
    )
    first, second = (
        mapped(
            T.VARCHAR,
            80,
            name=md5(f"i{part}".encode(), usedforsecurity=False).hexdigest(),
            collation=46,
        )
        for part in (0, 2)
    )
    c, latin = mapped(T.LONG, name="c", unsigned=False), replace(B, collation=8)
    rows = table_map(A, latin, first, second, c)
    assert described(rows, other, OLD_MYSQL) == []
    names = [one.name for one in column_definitions(rows, other, CHARSETS, server=OLD_MYSQL) or ()]
    assert names == [one.name for one in rows.columns]
    # Without names it is certain where only one way fits.
    bare = table_map(*(replace(one, name=None, unsigned=None) for one in rows.columns))
    assert described(bare, other, OLD_MYSQL) == []
    found = completed_map(bare, other, CHARSETS, server=OLD_MYSQL)
    assert [found.columns[at].name for at in (0, 1, 4)] == ["a", "b", "c"]
    alike = [replace(one, name=None) for one in (A, replace(latin, collation=46), first, second, c)]
    (fault,) = described(
        table_map(*alike),
        replace(
            other, columns=(other.columns[0], column("b", "varchar(80)", **TEXT), other.columns[2])
        ),
        OLD_MYSQL,
    )
    assert "only certain with binlog_row_metadata=FULL" in fault


def test_a_collation_changes_no_value() -> None:
    other = table(column("b", "varchar(20)", charset="utf8mb4", collation="utf8mb4_general_ci"))
    assert described(table_map(B), other) == []


def test_a_map_is_completed_by_the_definition() -> None:
    bare = table_map(mapped(T.LONG), mapped(T.VARCHAR, 80), mapped(T.ENUM, 1))
    other = table(
        column("a", "int unsigned"),
        column("b", "varchar(80)", charset="latin1", collation="latin1_unheard_of"),
        column("e", "enum('x')", **TEXT),
        key="a",
    )
    found = completed_map(bare, other, CHARSETS, server=MYSQL)
    assert [(c.name, c.unsigned, c.collation, c.labels) for c in found.columns] == [
        ("a", True, None, None), ("b", None, 8, None), ("e", None, 46, (b"x",)),
    ]  # fmt: skip
    assert found.primary_key == (0,)


def test_a_map_of_other_columns_is_not_completed() -> None:
    with pytest.raises(DefinitionMismatch, match="its rows have 1 columns, its definition has 2"):
        completed_map(
            table_map(A), table(column("a", "int"), column("b", "int")), CHARSETS, server=MYSQL
        )
    with pytest.raises(DefinitionMismatch, match="column 'a' is int in its rows, bigint defined"):
        completed_map(table_map(A), table(column("a", "bigint")), CHARSETS, server=MYSQL)
