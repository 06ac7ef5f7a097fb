"""Numbers in packets are read back as the same numbers."""

import math

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.types.decimals import decimal_bytes, decimal_groups, decimal_text
from tests.unit.connectors.mysql.select.tables import value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("tinyint", b"-128", -128),
        ("tinyint unsigned", b"255", 255),
        ("mediumint", b"-8388608", -8388608),
        ("mediumint", b"-1", -1),
        ("mediumint unsigned", b"16777215", 16777215),
        ("int(5) unsigned zerofill", b"00007", 7),
        ("bigint", b"-9223372036854775808", -(1 << 63)),
        ("bigint unsigned", b"18446744073709551615", (1 << 64) - 1),
        ("year", b"0000", 0),
        ("year(4)", b"2155", 2155),
        ("float(7,3)", b"1.7999999523162842", 1.8),
        ("double", b"5e-324", 5e-324),
        ("decimal(5,5)", b"-0.00001", "-0.00001"),
        ("decimal(8,2) unsigned zerofill", b"000005.50", "5.50"),
        ("bit(9)", b"\1\xff", "Af8="),
    ],
)
def test_a_number_is_read_back(kind: str, text: bytes, expected: object) -> None:
    found = value(kind, text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_negative_zero_keeps_its_sign() -> None:
    for kind in ("float", "double"):
        found = value(kind, b"-0")
        assert isinstance(found, float)
        assert math.copysign(1, found) == -1


@pytest.mark.parametrize(
    ("precision", "scale"), [(1, 0), (65, 0), (65, 30), (9, 9), (19, 10), (30, 30), (12, 2)]
)
def test_a_decimal_of_any_shape_is_read_back(precision: int, scale: int) -> None:
    encode, groups = decimal_bytes(precision, scale), decimal_groups(precision, scale)
    whole = precision - scale
    for digit in "019":
        point = f".{digit * scale}" if scale else ""
        text = f"{(digit * whole).lstrip('0') or '0'}{point}"
        for signed in (text, f"-{text}"):
            assert decimal_text(encode(signed.encode()), *groups) == signed


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("mediumint", b"8388608"),
        ("mediumint unsigned", b"-1"),
        ("year", b"1900"),
        ("decimal(4,2)", b"100.00"),
        ("decimal(4,2)", b"1.5"),
        ("decimal(4,2)", b"1.500"),
        ("decimal(4,2)", b"12"),
        ("decimal(4,0)", b"1.5"),
        ("bit(9)", b"\1"),
        ("bit(9)", b"\0\1\1"),
    ],
)
def test_a_value_in_another_form_is_refused_without_showing_it(kind: str, text: bytes) -> None:
    with pytest.raises(SnapshotUnsupported, match=r"column 'c'.*\[table=shop\.orders\]") as caught:
        value(kind, text)
    assert text.decode() not in str(caught.value)
    assert caught.value.__cause__ is None
