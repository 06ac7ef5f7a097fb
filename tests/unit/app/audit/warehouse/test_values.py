"""Values of the wire against those of the warehouse."""

from __future__ import annotations

from typing import Any

import pytest

from app.audit.warehouse.values import different


@pytest.mark.parametrize(
    ("kind", "wire", "held", "same"),
    [
        ("bigint unsigned", 18446744073709551615, "18446744073709551615", True),
        ("bigint unsigned", 18446744073709551615, "18446744073709551614", False),
        ("decimal(5,2)", "12.50", "12.5000", True),
        ("decimal(5,2)", "12.50", "12.51", False),
        ("float", 0.1, 0.10000000149011612, True),
        ("double", 0.1, 0.10000000149011612, False),
        ("date", "2026-01-01", "2026-01-01 00:00:00", True),
        ("datetime(6)", "2026-01-01T10:00:00.120000", "2026-01-01 10:00:00.12", True),
        ("datetime", "2026-01-01T10:00:01", "2026-01-01 10:00:00", False),
        ("timestamp", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00", True),
        ("varchar(9)", "12.50", "12.5", False),
        ("vector(2)", [0.5, 0.1], [0.5, 0.10000000149011612], True),
        ("geometry", {"srid": 0, "wkb": "AQ=="}, {"srid": 0, "wkb": "AQ=="}, True),
        ("int", 5, "five", False),
    ],
)
def test_values_are_equal_by_value_and_not_by_form(
    kind: str, wire: Any, held: Any, same: bool
) -> None:
    assert (different({"V": wire}, {"V": kind}, {"v": held}, {}) is None) is same


def test_a_zero_date_is_what_stands_beside_and_no_null() -> None:
    zero, types = {"d": "0000-00-00"}, {"d": "date"}
    assert different(zero, types, {"d": None}, {"d": "0000-00-00"}) is None
    assert different(zero, types, {"d": None}, {}) == "d"
    assert different({"d": None}, types, {"d": None}, {"d": "0000-00-00"}) == "d"
    assert different({"d": None}, types, {"d": None}, {}) is None


def test_a_column_that_a_version_does_not_have_is_empty_in_its_rows() -> None:
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": None}, {}) is None
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": 2}, {}) == "dropped"
    assert different({"a": 1, "b": 2}, {"a": "int"}, {"a": 1}, {}) == "b"
