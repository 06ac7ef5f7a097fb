"""Floating-point numbers as Java's own documentation and JDK 19 print them."""

from __future__ import annotations

import pytest

from connectors.mysql.types.floats import java_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-1.5, "-1.5"), (0.1, "0.1"), (100.0, "100.0"),
        (0.001, "0.001"), (0.00099, "9.9E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"), (-1e10, "-1.0E10"), (1e16, "1.0E16"), (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"), (1e23, "1.0E23"), (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.3333333333333333, "0.3333333333333333"),
    ],
)  # fmt: skip
def test_a_double_is_written_as_double_to_string_writes_it(value: float, text: str) -> None:
    assert java_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-45, "1.4E-45"), (3.4028235e38, "3.4028235E38"), (0.1, "0.1"), (16777216.0, "1.6777216E7"),
        (1.1754944e-38, "1.1754944E-38"), (0.33333334, "0.33333334"),
    ],
)  # fmt: skip
def test_a_float_is_written_as_float_to_string_writes_it(value: float, text: str) -> None:
    assert java_number(value, is_single=True) == text
