"""Single values at the edges of their types; tests/integration asks real servers about all others."""

import struct

import pytest

from connectors.mysql.charsets import ReplacedText, column_decoder
from connectors.mysql.types.floats import shortest_float32
from connectors.mysql.types.temporal import datetime_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.4028234663852886e38, "3.4028235e+38"),
        (-3.4028234663852886e38, "-3.4028235e+38"),
        (3.4028232635611926e38, "3.4028233e+38"),
        (0.1, "0.1"),
        (1e-45, "1e-45"),
    ],
)
def test_a_float_has_the_fewest_digits_that_are_the_same_float(value: float, text: str) -> None:
    assert repr(shortest_float32(struct.pack("<f", value))) == text


@pytest.mark.parametrize(
    ("day", "joint"),
    [
        ((2023, 2, 28), "T"), ((2023, 2, 29), " "), ((2024, 2, 29), "T"), ((1900, 2, 29), " "),
        ((2000, 2, 29), "T"), ((2023, 2, 31), " "), ((2023, 4, 31), " "), ((2023, 12, 31), "T"),
        ((2023, 0, 1), " "), ((2023, 1, 0), " "), ((0, 0, 0), " "), ((0, 1, 1), "T"), ((0, 2, 29), " "),
    ],
)  # fmt: skip
def test_a_moment_is_iso_text_only_where_there_is_such_a_day(
    day: tuple[int, int, int], joint: str
) -> None:
    assert datetime_text(day, (10, 11, 12), ".5")[10] == joint


def test_a_surrogate_in_ucs2_is_a_character_that_unicode_lacks() -> None:
    decode = column_decoder("ucs2")
    assert decode is not None
    text = decode(bytes.fromhex("0041d83dde00"))
    assert (text, type(text)) == ("A\ufffd\ufffd", ReplacedText)
    assert type(decode(bytes.fromhex("00410042"))) is str
    with pytest.raises(UnicodeDecodeError):
        decode(b"\x00")


@pytest.mark.parametrize(
    ("charset", "raw"), [("sjis", "80"), ("utf8mb4", "ff"), ("big5", "a1"), ("gbk", "ff41")]
)
def test_bytes_that_no_column_takes_are_an_error(charset: str, raw: str) -> None:
    decode = column_decoder(charset)
    assert decode is not None
    with pytest.raises(UnicodeDecodeError):
        decode(bytes.fromhex(raw))
