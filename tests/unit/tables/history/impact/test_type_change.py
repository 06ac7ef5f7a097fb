"""The effect of a column's type change on its values."""

import pytest

from connectors.mysql.ddl.definition import Column
from tables.history.impact.type_change import Relation, charset_relation, kind_of, relation

SAME, WIDER, NARROWER, SHIFTED, OTHER = (
    Relation.SAME, Relation.WIDER, Relation.NARROWER, Relation.SHIFTED, Relation.OTHER_FORM,
)  # fmt: skip


def related(old: str, new: str) -> Relation:
    kinds = (kind_of(Column(name="c", type=each, nullable=True)) for each in (old, new))
    return relation(*kinds)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "int(11)", SAME), ("int", "bigint", WIDER), ("bigint", "int", NARROWER),
        ("int", "int unsigned", SHIFTED), ("smallint unsigned", "int", WIDER),
        ("int unsigned", "int", SHIFTED), ("int", "smallint unsigned", NARROWER),
        ("int unsigned", "int(10) unsigned zerofill", SAME), ("tinyint(1)", "tinyint", SAME),
        ("int", "double", WIDER), ("bigint", "double", SHIFTED), ("int", "float", SHIFTED),
        ("smallint", "float", WIDER), ("float", "double", WIDER), ("double", "float", NARROWER),
        ("float(7,3)", "float", SAME), ("double", "double unsigned", NARROWER), ("double", "int", NARROWER),
        ("year", "int", WIDER), ("int", "year", NARROWER), ("smallint", "double unsigned", SHIFTED),
        ("decimal(9,2)", "decimal(12,2)", WIDER), ("decimal(9,2)", "decimal(8,2)", NARROWER),
        ("decimal(9,2)", "decimal(10,3)", OTHER), ("decimal(9,2)", "decimal(9,2) unsigned", NARROWER),
        ("decimal(9,2) unsigned", "decimal(9,2)", WIDER), ("int", "decimal(10,0)", OTHER),
        ("datetime(6)", "datetime", OTHER), ("datetime", "timestamp", OTHER), ("date", "datetime", OTHER),
        ("time(3)", "time(3)", SAME), ("time", "time /* 5.5 binary format */", SAME),
        ("varchar(20)", "varchar(80)", WIDER), ("varchar(80)", "varchar(20)", NARROWER),
        ("char(20)", "varchar(20)", SAME), ("varchar(20)", "text", WIDER), ("text", "varchar(20)", NARROWER),
        ("text", "mediumtext", WIDER), ("varchar(65535)", "text", NARROWER),
        ("varchar(300)", "tinytext", NARROWER),
        ("text", "json", SHIFTED), ("json", "longtext", WIDER), ("json", "text", SHIFTED),
        ("varchar(9)", "json", SHIFTED), ("longtext", "json", NARROWER),
        ("varchar(200) /*M!100301 COMPRESSED*/", "varchar(200)", SAME),
        ("enum('a','b')", "enum('a','b','c')", WIDER), ("enum('a','b')", "enum('a')", NARROWER),
        ("enum('a','b')", "enum('b','a')", SAME), ("enum('a','b')", "enum('a','c')", SHIFTED),
        ("enum('a','bb')", "varchar(2)", WIDER), ("enum('a','bb')", "varchar(1)", SHIFTED),
        ("varchar(2)", "enum('a','bb')", NARROWER), ("varchar(2)", "enum('a','bbb')", SHIFTED),
        ("set('a','b')", "set('a','b','c')", WIDER), ("set('a','b')", "set('b','a')", OTHER),
        ("set('a','b')", "varchar(3)", WIDER), ("enum('a')", "set('a')", SHIFTED),
        ("enum('it''s','(3)')", "enum('it''s','(3)')", SAME),
        ("varchar(9)", "varbinary(9)", OTHER), ("varbinary(9)", "blob", WIDER), ("blob", "tinyblob", NARROWER),
        ("binary(4)", "binary(8)", OTHER), ("binary(4)", "varbinary(4)", OTHER), ("binary(16)", "uuid", SAME),
        ("uuid", "inet6", OTHER), ("uuid", "varchar(36)", OTHER),
        ("bit(1)", "bit(8)", WIDER), ("bit(8)", "bit(1)", NARROWER), ("bit(8)", "bit(9)", OTHER),
        ("point", "geometry", WIDER), ("geometry", "point", NARROWER), ("point", "polygon", SHIFTED),
        ("geometrycollection", "geomcollection", SAME), ("multipoint", "geomcollection", WIDER),
        ("vector(3)", "vector(9)", WIDER), ("vector(9)", "vector(3)", NARROWER), ("vector(3)", "json", OTHER),
    ],
)  # fmt: skip
def test_values_stand_to_those_that_were(old: str, new: str, expected: Relation) -> None:
    assert related(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("latin1", "latin1", SAME), (None, "latin1", SAME), ("latin1", "utf8mb4", WIDER),
        ("utf8mb4", "latin1", NARROWER), ("utf8mb3", "utf8mb4", WIDER), ("utf8mb4", "utf8mb3", NARROWER),
        ("utf8", "utf8mb3", SAME), ("utf8mb4", "gb18030", SAME), ("latin1", "latin2", SHIFTED),
        ("latin1", "utf8mb3", WIDER), ("ucs2", "gbk", NARROWER), ("ascii", "latin1", WIDER),
        ("latin1", "ascii", NARROWER), ("ascii", "utf8mb4", WIDER), ("utf8mb3", "ucs2", SAME),
    ],
)  # fmt: skip
def test_characters_stand_to_those_that_were(
    old: str | None, new: str | None, expected: Relation
) -> None:
    assert charset_relation(old, new) is expected
