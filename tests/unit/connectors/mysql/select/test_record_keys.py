"""Keys of records as SQL: exact for each type, and none where a value may be published for several."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Column
from connectors.mysql.select.record_keys import RecordKeys, ambiguous
from tests.unit.connectors.mysql.select.tables import CHARSETS, MYSQL, NAME, column, table


def literal(one: Column, value: Any, charsets: Charsets = CHARSETS) -> str:
    keys = RecordKeys(NAME, table(one, key="c"), charsets, server=MYSQL)
    (found,) = keys.literals({"c": value})
    return found


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("tinyint", -128, "-128"),
        ("bigint unsigned", 18446744073709551615, "18446744073709551615"),
        ("year", 2026, "2026"),
        ("decimal(30,10)", "-1234567890.0000000001", "-1234567890.0000000001"),
        # The double that is the 32-bit float nearest to 0.1, and no DECIMAL.
        ("float", 0.1, "0.10000000149011612e0"),
        ("double", 0.1, "0.1e0"),
        ("double", 1e300, "1e+300"),
        ("date", "2026-11-27", "'2026-11-27'"),
        ("date", "0000-00-00", "'0000-00-00'"),
        ("datetime(3)", "2026-11-27T01:02:03.004", "'2026-11-27 01:02:03.004'"),
        ("timestamp", "2026-11-27T01:02:03Z", "'2026-11-27 01:02:03'"),
        ("time(2)", "-838:59:59.00", "'-838:59:59.00'"),
        ("bit(10)", "AgE=", "(X'0201' + 0)"),
        ("varbinary(9)", "AP8=", "X'00ff'"),
        ("binary(2)", "AQA=", "X'0100'"),
        ("varchar(9)", "é'", "_utf8mb4 X'c3a927'"),
        ("char(9)", "", "_utf8mb4 X''"),
        ("enum('a','é')", "é", "_utf8mb4 X'c3a9'"),
        ("set('a','b')", "a,b", "_utf8mb4 X'612c62'"),
    ],
)
def test_a_value_is_an_expression_of_its_type(kind: str, value: Any, wanted: str) -> None:
    assert literal(column(kind, nullable=False), value) == wanted


@pytest.mark.parametrize(
    ("charset", "value", "wanted"),
    [
        ("latin1", "é", "_latin1 X'e9'"),
        ("gbk", "中", "_gbk X'd6d0'"),
        ("utf16", "😀", "_utf8mb4 X'f09f9880'"),
    ],
)
def test_text_is_in_the_columns_own_character_set(charset: str, value: str, wanted: str) -> None:
    assert literal(column("varchar(9)", charset=charset, nullable=False), value) == wanted


def test_a_key_is_in_the_order_of_the_tables_own() -> None:
    columns = (column("int", "a", nullable=False), column("int", "b", nullable=False))
    keys = RecordKeys(NAME, table(*columns, key="b a"), CHARSETS, server=MYSQL)
    assert keys.literals({"a": 1, "b": 2}) == ("2", "1")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", None),
        ("int", "x'"),
        ("decimal(5,2)", "1.0 OR 1"),
        ("date", "x' OR '1"),
        ("float", 1e300),
        ("varbinary(9)", "no base64"),
        ("varchar(9)", 7),
    ],
)
def test_a_value_in_another_form_is_refused_without_its_text(kind: str, value: Any) -> None:
    with pytest.raises(SnapshotUnsupported) as found:
        literal(column(kind, nullable=False), value)
    assert str(value) not in found.value.detail or value is None
    assert "'c'" in found.value.detail


def test_a_character_with_several_forms_is_refused() -> None:
    charsets = Charsets({95: "cp932"}, {"cp932": 2}, {95: "cp932_japanese_ci"})
    one = Column(
        name="c", type="varchar(9)", nullable=False, charset="cp932", collation="cp932_japanese_ci"
    )
    assert literal(one, "あ", charsets) == "_cp932 X'82a0'"
    with pytest.raises(SnapshotUnsupported, match="cannot be looked for exactly"):
        literal(one, "仡", charsets)


@pytest.mark.parametrize(
    ("charset", "some", "count"),
    [
        ("latin1", "", 0),
        ("cp932", "№ⅰ仡", 396),
        ("eucjpms", "№㈱", 23),
        ("sjis", "\\", 1),
        ("armscii8", "'(),-.", 6),
    ],
)
def test_the_characters_with_several_forms(charset: str, some: str, count: int) -> None:
    found = ambiguous(charset)
    assert set(some) <= found
    assert len(found) == count
