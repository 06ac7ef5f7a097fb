from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from demo.canonical import ABSENT, Key, Row, canonical, differences, row

_ZONED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MOMENT = _ZONED.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("mysql", "warehouse", "data_type"),
    [
        (9223372036854775809, Decimal("9223372036854775809"), "bigint"),
        (1, 1, "tinyint"),
        (1, True, "tinyint"),
        (Decimal("12.50"), Decimal("12.50"), "decimal"),
        (0.1, 0.1, "double"),
        (b"\x00\xff", bytearray(b"\x00\xff"), "varbinary"),
        ('{"a": 1, "b": [1.50]}', '{"b":[1.50],"a":1}', "json"),
        (_MOMENT, _MOMENT.replace(), "datetime"),
        (date(2026, 1, 2), date(2026, 1, 2), "date"),
        ("Zoë 🚀", "Zoë 🚀", "varchar"),
        (None, None, "text"),
    ],
)
def test_the_same_value_is_the_same_text_whatever_carries_it(
    mysql: object, warehouse: object, data_type: str
) -> None:
    assert canonical(mysql, data_type) == canonical(warehouse, data_type)


@pytest.mark.parametrize(
    ("mysql", "warehouse", "data_type"),
    [
        (Decimal("12.50"), Decimal("12.5"), "decimal"),
        (9223372036854775809, 9.223372036854775809e18, "bigint"),
        (0.1, 0.10000000149011612, "double"),
        (None, "", "text"),
        (None, "None", "text"),
        (None, "null", "json"),
        ("[1]", "[1.0]", "json"),
        ("[1]", '["1"]', "json"),
        ("[1.5]", '["1.5"]', "json"),
        (b"", None, "varbinary"),
        (_MOMENT, _MOMENT.replace(microsecond=1), "datetime"),
        (_MOMENT, _MOMENT.replace(hour=4), "timestamp"),
        ("a ", "a", "varchar"),
        ("1", 1, "varchar"),
    ],
)
def test_another_value_is_another_text(mysql: object, warehouse: object, data_type: str) -> None:
    assert canonical(mysql, data_type) != canonical(warehouse, data_type)


def test_a_moment_with_a_zone_is_not_taken_for_one_without() -> None:
    assert canonical(_ZONED, "datetime") != canonical(_MOMENT, "datetime")


def test_text_that_is_no_json_is_not_equal_to_any() -> None:
    assert canonical("{", "json") != canonical('"{"', "json")


def test_a_row_has_the_columns_of_mysql_and_says_which_are_missing() -> None:
    assert row({"id": 7, "__seq": 3}, {"id": "int", "note": "text"}) == {"id": "7", "note": ABSENT}


def test_each_kind_of_difference_is_found_and_reported_in_full() -> None:
    source: dict[Key, Row] = {
        ("1",): {"id": "1", "n": "a"},
        ("2",): {"id": "2", "n": "b"},
        ("4",): {"id": "4"},
    }
    held: dict[Key, Row] = {
        ("1",): {"id": "1", "n": "z"},
        ("3",): {"id": "3", "n": "c"},
        ("4",): {"id": "4"},
    }
    found = sorted(str(difference) for difference in differences("orders", source, held))
    assert found == [
        "orders (1): n is a in MySQL, z in the warehouse",
        "orders (2): only MySQL has it: {'id': '2', 'n': 'b'}",
        "orders (3): only the warehouse has it: {'id': '3', 'n': 'c'}",
    ]
