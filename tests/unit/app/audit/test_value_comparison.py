"""Values as mysqlbinlog prints them against values on the wire: equal ones are, and others are not."""

from __future__ import annotations

from typing import Any

import pytest

from app.audit.table_shape import BinlogColumn, column_of_type, label_text
from app.audit.value_comparison import comparison


def column(
    kind: str,
    size: str | None = None,
    *,
    unsigned: bool = False,
    charset: str | None = None,
    labels: tuple[str, ...] | None = None,
) -> BinlogColumn:
    return BinlogColumn("c", kind, size, unsigned, charset, labels)


NUMBERS = tuple("123456789x")
CASES: list[tuple[BinlogColumn, bytes, Any, Any]] = [
    (column("INT"), b"-1 (4294967295)", -1, 4294967295),
    (column("INT", unsigned=True), b"-1 (4294967295)", 4294967295, -1),
    (column("BIGINT", unsigned=True), b"7", 7, 7.0),
    (column("TINYINT"), b"1", 1, True),
    (column("YEAR"), b"2024", 2024, "2024"),
    (column("YEAR"), b"1900", 0, 1900 + 1),
    (column("DECIMAL", "5,2"), b"-0.50", "-0.50", "-0.5"),
    (column("DECIMAL", "5,2"), b"1.00", "1.00", 1.0),
    (column("FLOAT"), b"3.40282e+38          ", 3.4028235e38, 3.4027e38),
    (column("DOUBLE"), b"0.10000000000000000555", 0.1, 0.10000000000000002),
    (column("DATE"), b"'2024:02:29'", "2024-02-29", "2024-02-28"),
    (column("DATE"), b"'0000:00:00'", "0000-00-00", None),
    (column("DATETIME"), b"'2024-02-29 12:00:01'", "2024-02-29T12:00:01", "2024-02-29 12:00:01"),
    (column("DATETIME"), b"'2020-00-00 00:00:00'", "2020-00-00 00:00:00", "2020-00-00T00:00:00"),
    (column("TIMESTAMP", "3"), b"1709208001.123", "2024-02-29T12:00:01.123Z", "2024-02-29T12:00:01.123"),
    (column("TIMESTAMP"), b"0", "0000-00-00 00:00:00", "1970-01-01T00:00:00Z"),
    (column("TIME", "2"), b"'-00:00:00.01'", "-00:00:00.01", "00:00:00.01"),
    (column("VARCHAR", charset="utf8mb4"), rb"'x\'y\n\\z\x00\t'", "x'y\n\\z\0\t", "x'y"),
    (column("VARCHAR", charset="latin1"), b"'\x80\x81'", "€\x81", "€"),
    (column("VARCHAR", charset="ucs2"), b"'\\x00\xfc'", "ü", "u"),
    (column("TEXT", charset="utf8mb4"), b"'a'", "a", "A"),
    (column("BINARY", "5"), rb"'\x01\x02'", "AQIAAAA=", "AQI="),
    (column("VARBINARY"), rb"'\x00'", "AA==", ""),
    (column("BIT", "12"), b"b'101010101010'", "Cqo=", "qgo="),
    (column("ENUM", labels=("a", "b")), b"2", "b", "a"),
    (column("ENUM", labels=("a", "b")), b"0", "", "a"),
    (column("SET", labels=NUMBERS), b"b'0000001000000001'", "2,9", "1,x"),
    (column("VARCHAR", charset="utf8mb4"), rb"'\f\x0b'", "\f\x0b", "f\x0b"),
    (column("VARCHAR", charset="swe7"), b"'[a]'", "ÄaÅ", "[a]"),
    (column("DATETIME"), b"'2023-02-31 10:11:12'", "2023-02-31 10:11:12", "2023-02-31T10:11:12"),
    (column("DATETIME"), b"'0000-01-01 00:00:00'", "0000-01-01T00:00:00", "0000-01-01 00:00:00"),
    (column("JSON"), rb"'a\fb\\c'", '"a\\fb\\\\c"', '"afb"'),
    (column("JSON"), b"'null'", "null", '"nil"'),
    (column("JSON"), b"'null'", '"null"', "0"),
    (column("JSON"), b"'2026-11-21'", '"2026-11-21"', '"2026-11-22"'),
    (column("JSON"), b"'{\"a\": [1, 2.50]}'", '{"a":[1,2.5]}', '{"a":[1,2.51]}'),
    (column("JSON"), b"'[true, 1, 1.0]'", "[true,1,1.0]", "[1,1,1.0]"),
    (column("JSON"), b"'[true, 1, 1.0]'", "[true,1,1.0]", "[true,1.0,1.0]"),
    # Bytes in documents of MySQL 5.7: the program prints them as text, or what is none.
    (column("JSON"), b"'x'", '"base64:type253:eA=="', '"base64:type253:eQ=="'),
    (column("JSON"), rb"""'{"a": ["\\u0000\xff\\""]}'""", '{"a":["base64:type253:AP8i"]}', '{"a":["AP8i"]}'),
    (column("JSON"), b"'[\"%s\"]'" % (b"x" * 58),
     f'["base64:type253:{"eHh4" * 19}\\neA=="]', f'["base64:type253:{"eHh4" * 19}\\neQ=="]'),
    (column("JSON"), b"'[\"x\"]'", '["x"]', '["base64:type15:eA=="]'),
]  # fmt: skip


@pytest.mark.parametrize(("what", "printed", "equal", "other"), CASES)
def test_equal_values_are_equal_and_others_are_not(
    what: BinlogColumn, printed: bytes, equal: Any, other: Any
) -> None:
    same = comparison(what)
    assert same is not None
    assert same(printed, equal)
    assert not same(printed, other)


@pytest.mark.parametrize(
    "what",
    [
        column("POINT"),
        column("VECTOR", "3"),
        column("ENUM"),
        column("SET", labels=("\ufffd",)),
        column("VARCHAR", charset="sjis"),
    ],
)
def test_what_cannot_be_compared_is_not(what: BinlogColumn) -> None:
    assert comparison(what) is None


def test_a_column_that_the_binlog_does_not_state_is_that_of_its_version() -> None:
    assert column_of_type("c", "enum('a,b','it''s')", "utf8mb4").labels == ("a,b", "it's")
    assert column_of_type("c", "bigint(20) unsigned", None) == column("BIGINT", "20", unsigned=True)
    assert column_of_type("c", "varchar(80)", "latin1") == column("VARCHAR", "80", charset="latin1")
    assert column_of_type("c", "datetime", None) == column("DATETIME")


@pytest.mark.parametrize(
    ("raw", "charset", "label"),
    [
        (b"[a]", "swe7", "ÄaÅ"),
        (b"\xe4", "latin1", "ä"),
        (b"\0x", "utf16", "x"),
        (b"a,b", "big5", "a,b"),
    ],
)
def test_a_label_is_read_in_its_columns_character_set(raw: bytes, charset: str, label: str) -> None:
    assert label_text(raw, charset) == label


def test_a_label_that_is_not_read_is_marked() -> None:
    assert "\ufffd" in label_text(b"\xa5\x5c", "big5")
    assert "\ufffd" in label_text(b"\xdb", "tis620")
