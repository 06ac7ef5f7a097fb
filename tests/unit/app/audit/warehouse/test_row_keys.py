"""Keys: a record's and the warehouse's are normalized to the same form."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.audit.warehouse.check import of_record, of_row
from tables.history.present_columns import Present


def present(types: dict[str, str]) -> Present:
    """Columns that have kept their names."""
    own = {name.lower(): kind for name, kind in types.items()}
    return Present({name: name for name in own}, {}, own)


@pytest.mark.parametrize(
    ("mysql", "wire", "spark", "held"),
    [
        ("int", 5, "bigint", 5),
        ("bigint unsigned", 18446744073709551615, "decimal(20,0)", "18446744073709551615"),
        ("decimal(5,2)", "12.50", "decimal(9,4)", "12.5000"),
        ("decimal(5,0)", "100", "decimal(7,2)", "100.00"),
        ("float", 0.1, "float", 0.1),
        ("float", 0.1, "double", 0.10000000149011612),
        ("double", 0.1, "double", 0.1),
        ("date", "2026-01-01", "timestamp_ntz", "2026-01-01 00:00:00"),
        ("timestamp(3)", "2026-01-01T10:00:00.120Z", "timestamp", "2026-01-01 10:00:00.12"),
        ("varchar(9)", "01.0", "string", "01.0"),
        ("binary(2)", "AQ==", "binary", "AQ=="),
    ],
)
def test_a_key_is_equal_by_value(mysql: str, wire: Any, spark: str, held: Any) -> None:
    of_wire = of_record(orjson.dumps({"K": wire, "b": "x"}), present({"K": mysql, "b": "char(1)"}))
    kinds = {"b": "string", "k": spark}
    assert of_wire == of_row(("b", "k"), {"b": "x", "k": held}, kinds, {})
    assert of_wire != of_row(("b", "k"), {"b": "y", "k": held}, kinds, {})


def test_a_zero_date_is_the_text_that_stands_beside() -> None:
    result = of_row(("d",), {"d": None}, {"d": "date"}, {"d": "0000-00-00"})
    assert result == of_record(b'{"d":"0000-00-00"}', present({"d": "date"}))
    assert result != of_row(("d",), {"d": None}, {"d": "date"}, {})


def test_texts_that_look_like_equal_numbers_are_two_keys() -> None:
    types = present({"k": "varchar(9)"})
    assert of_record(b'{"k":"01"}', types) != of_record(b'{"k":"1"}', types)


@pytest.mark.parametrize("key", [b"no json", b"[1]", b'{"k":[]}'])
def test_what_is_no_key_stays_as_it_is(key: bytes) -> None:
    assert of_record(key, present({"k": "date"})) == key


def test_a_column_of_the_key_has_its_present_name() -> None:
    renamed = Present({"id": "number"}, {}, {"number": "int"})
    assert of_record(b'{"ID":7}', renamed) == of_row(
        ("number",), {"number": 7}, {"number": "int"}, {}
    )
