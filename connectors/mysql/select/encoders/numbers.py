"""Decimals and years from text.

Source for DECIMAL: MySQL's strings/decimal.cc, decimal2bin.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.mysql.rows.values.numbers import decimal_groups

YEARS = {b"0000": 0, **{b"%d" % year: year - 1900 for year in range(1901, 2156)}}
"""The byte of a YEAR by its text."""

_DIGITS = 9
_WORD = 10**_DIGITS
_WORD_BITS = 32
_POINT, _MINUS = b".-"


def decimal(precision: int, scale: int) -> Callable[[bytes], bytes]:
    """The function from the text of a DECIMAL(precision, scale), with all digits of its scale, to its bytes."""
    groups, whole_groups = decimal_groups(precision, scale)
    sizes = [size for size, _ in groups]
    size, part_bits = sum(sizes), 8 * sum(sizes[whole_groups:])
    limit, sign = 10 ** (precision - scale), 1 << (8 * size - 1)
    has_words = whole_groups > 1
    pack_part = _part(groups[whole_groups:])
    point = -scale - 1

    def encode(text: bytes) -> bytes:
        magnitude = 0
        if not scale:
            whole = int(text)
        elif text[point] == _POINT:
            # A DECIMAL without digits before the point prints them as 0.
            whole, magnitude = int(text[:point]), pack_part(text[-scale:])
        else:
            raise ValueError(f"no DECIMAL({precision},{scale})")
        negative = text[0] == _MINUS
        if negative:
            whole = -whole
        if not 0 <= whole < limit:
            raise ValueError(f"no DECIMAL({precision},{scale})")
        magnitude |= (_in_words(whole) if has_words and whole >= _WORD else whole) << part_bits
        # The sign is inverted, and so are all bits of a negative number.
        return (sign - 1 - magnitude if negative else sign + magnitude).to_bytes(size, "big")

    return encode


def _in_words(number: int) -> int:
    """A number with 32 bits for each nine of its digits."""
    packed, shift = 0, 0
    while number:
        number, word = divmod(number, _WORD)
        packed |= word << shift
        shift += _WORD_BITS
    return packed


def _part(groups: list[tuple[int, int]]) -> Callable[[bytes], int]:
    """The function from the digits after the point to their packed form."""
    if len(groups) == 1:
        return int

    def pack(digits: bytes) -> int:
        packed, at = 0, 0
        for size, count in groups:
            packed = packed << (8 * size) | int(digits[at : at + count])
            at += count
        return packed

    return pack


def fixed(size: int) -> Callable[[bytes], bytes]:
    """The function that checks the size of raw bytes, such as those of a BIT."""

    def encode(raw: bytes) -> bytes:
        if len(raw) != size:
            raise ValueError(f"{len(raw)} bytes, {size} expected")
        return raw

    return encode
