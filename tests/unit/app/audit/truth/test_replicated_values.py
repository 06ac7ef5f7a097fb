"""Values of mysql-replication are converted to the form that mysqlbinlog prints, or are not judged."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.audit.truth.mysql_replication import image_of, printed, shape_of
from app.audit.value_comparison import UNTOLD, comparison
from connectors.mysql.stream import second_reader as read


def column(code: int, size: int = 0, **more: Any) -> read.ReadColumn:
    settings = {"unsigned": False, "charset": None, "labels": None} | more
    return read.ReadColumn(name="c", code=code, size=size, **settings)


def kept(described: read.ReadColumn) -> Any:
    return shape_of(read.ReadTable("shop", "t", (described,), None)).columns[0]


TEXT = column(15, 9, charset="utf8mb4")
SET = column(248, labels=("a", "b", "c,d"))
SAME = [
    (column(8, unsigned=True), 2**64 - 1, 2**64 - 1),
    (column(1), -1, -1),
    (column(246), Decimal("-0.0000000010"), "-0.0000000010"),
    (column(4), 0.10000000149011612, 0.1),
    (column(5), 0.1, 0.1),
    (column(13), 1900, 0),
    (column(10), date(7, 2, 9), "0007-02-09"),
    (
        column(18, 6),
        datetime.fromisoformat("0007-02-09T01:02:03.000045"),
        "0007-02-09T01:02:03.000045",
    ),
    (column(17, 3), datetime.fromisoformat("2024-02-29T12:00:01.123"), "2024-02-29T12:00:01.123Z"),
    (column(17), datetime.fromisoformat("1970-01-01"), "0000-00-00 00:00:00"),
    (column(19), -timedelta(hours=838, minutes=59, seconds=59), "-838:59:59"),
    (column(19, 2), timedelta(seconds=45296, milliseconds=780), "12:34:56.78"),
    (TEXT, "x\n1=\\'é".encode(), "x\n1=\\'é"),
    (column(252, 2, charset="binary"), b"\x00\n'\xff", "AAon/w=="),
    (column(254, 5, charset="binary"), b"\x01", "AQAAAAA="),
    (column(16, 12), "101010101010", "Cqo="),
    (column(247, labels=("new", "old")), 2, "old"),
    (column(247, labels=("new", "old")), 0, ""),
    (SET, read.Bits(frozenset({0, 2})), "a,c,d"),
    (SET, read.Bits(frozenset()), ""),
    (column(245), read.Document({b"a": [1, 2.5, b"\xc3\xa9", None]}), '{"a": [1, 2.5, "é", null]}'),
    (column(245), read.Document(b"text"), '"text"'),
    (column(245), read.Document(None), "null"),
]


@pytest.mark.parametrize(("described", "value", "wire"), SAME)
def test_a_value_is_the_one_on_the_wire_and_another_is_not(
    described: read.ReadColumn, value: object, wire: Any
) -> None:
    same = comparison(kept(described))
    assert same is not None
    assert same(printed(value, described), wire)
    other = wire + 1 if isinstance(wire, int | float) else f"{wire[:-1]}{'1' if wire else 'x'}"
    try:
        assert not same(printed(value, described), other)
    except ValueError:
        assert described.code == 245  # what was made of the document is none


@pytest.mark.parametrize(
    ("described", "value"),
    [
        (column(10), read.UNKNOWN_VALUE),
        (column(19, 2), timedelta(milliseconds=-990)),
        (column(245), read.Document([Decimal("1.5")])),
        (column(245), read.Document({b"d": datetime.fromisoformat("2024-01-01")})),
        (column(245), read.Document("text of an opaque value")),
    ],
)
def test_what_it_decodes_otherwise_is_untold(described: read.ReadColumn, value: object) -> None:
    assert printed(value, described) == UNTOLD


def test_an_image_has_only_the_columns_that_are_there_and_null_is_null() -> None:
    assert image_of({1: None, 3: b"a\nb"}, (TEXT, TEXT, TEXT)) == b"1=NULL\n3='a\\nb'"


def test_a_type_that_is_not_known_has_no_comparison() -> None:
    assert comparison(kept(column(12))) is None
    assert comparison(kept(column(255, 4))) is None
