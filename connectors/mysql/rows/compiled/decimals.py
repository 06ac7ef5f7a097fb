"""DECIMAL as text, with code generated for each precision and scale.

Invariant: the code is for non-negative numbers; a negative one has all its bits inverted, and is
the same number with a minus sign. Source: MySQL's strings/decimal.cc, decimal2bin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from string import Template, ascii_lowercase
from typing import Any

from connectors.mysql.rows.compiled.temporal import THREE, TWO
from connectors.mysql.rows.values.numbers import decimal_groups

_FORMATS = {1: ("B",), 2: ("H",), 3: ("B", "H"), 4: ("I",)}
_BIAS = {"B": 1 << 7, "H": 1 << 15, "I": 1 << 31}
"""The first bit is set in non-negative numbers."""
_WORD = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Decimal:
    """The code that reads a DECIMAL(precision, scale)."""

    formats: tuple[str, ...]
    """Struct formats, big-endian, for ``$a``, ``$b``, …"""
    text: str
    """The f-string of a non-negative number."""
    bias: int
    """The smallest ``$a`` of such a number."""


@cache
def decimal_code(precision: int, scale: int) -> Decimal:
    """The code for a precision and scale."""
    groups, whole = decimal_groups(precision, scale)
    formats: list[str] = []
    values = []
    for width, _ in groups:
        names = [f"${ascii_lowercase[len(formats) + n]}" for n in range(len(_FORMATS[width]))]
        formats += _FORMATS[width]
        values.append(names)
    bias = _BIAS[formats[0]]
    values[0][0] = f"({values[0][0]} - {bias})"
    numbers = [one[0] if len(one) == 1 else f"({one[0]} << 16 | {one[1]})" for one in values]
    number = numbers[0] if whole else "0"
    for one in numbers[1:whole]:
        number = f"({number} * {_WORD} + {one})"
    fractions = zip(numbers[whole:], groups[whole:], strict=True)
    digits = "".join(_digits(one, count) for one, (_, count) in fractions)
    return Decimal(tuple(formats), f"f'{{{number}}}" + (f".{digits}'" if digits else "'"), bias)


def _digits(number: str, count: int) -> str:
    """Parts of an f-string: a number with leading zeros, three digits at a time."""
    pieces = []
    while count > 3:
        pieces.append((number, 3))
        number, count = f"{number} // 1000", count - 3
    pieces.append((number, count))
    texts = []
    for n, (one, size) in enumerate(reversed(pieces)):
        part = f"{one} % 1000" if n else one
        texts.append({1: f"{{{part}}}", 2: f"{{two[{part}]}}", 3: f"{{three[{part}]}}"}[size])
    return "".join(texts)


@cache
def decimal_json(precision: int, scale: int) -> Callable[[bytes], str]:
    """The function from the packed bytes of a DECIMAL(precision, scale), of either sign, to its text."""
    code = decimal_code(precision, scale)
    unpack = struct.Struct(">" + "".join(code.formats))
    size, full = unpack.size, (1 << (8 * unpack.size)) - 1

    def negative(raw: bytes) -> str:
        return "-" + made((int.from_bytes(raw, "big") ^ full).to_bytes(size, "big"))

    names = list(ascii_lowercase[: len(code.formats)])
    source = (
        "def decimal(raw):\n"
        "    if raw[0] < 128:\n"
        "        return negative(raw)\n"
        f"    {', '.join(names)}, = unpack(raw)\n"
        f"    return {named(code.text, names)}\n"
    )
    namespace: dict[str, Any] = {
        "negative": negative,
        "unpack": unpack.unpack,
        "two": TWO,
        "three": THREE,
    }
    exec(source, namespace)  # noqa: S102 - made of numbers alone
    made: Callable[[bytes], str] = namespace["decimal"]
    return made


def named(text: str, names: Sequence[str], **more: str) -> str:
    """An expression with names substituted for ``$a``, ``$b`` and so on."""
    return Template(text).substitute(dict(zip(ascii_lowercase, names, strict=False)), **more)
