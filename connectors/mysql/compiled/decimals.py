"""DECIMAL to JSON text, with a function generated for each precision and scale.

The law: the fast way is for numbers that are not negative, whose groups are plain integers; any other number
goes through ``values.numbers``. Source: MySQL's strings/decimal.cc, decimal2bin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from connectors.mysql.values.numbers import decimal_groups, decimal_text

_FORMATS = {1: "B", 2: "H", 4: "I"}
_WORD = 1_000_000_000


@cache
def decimal_json(precision: int, scale: int) -> Callable[[bytes], str]:
    """The function from the packed bytes of a DECIMAL(precision, scale) to a JSON string."""
    groups, whole = decimal_groups(precision, scale)

    def plain(raw: bytes) -> str:
        return f'"{decimal_text(raw, groups, whole)}"'

    if not whole or any(width not in _FORMATS for width, _ in groups):
        return plain
    unpack = struct.Struct(">" + "".join(_FORMATS[width] for width, _ in groups)).unpack
    namespace: dict[str, Any] = {"plain": plain, "unpack": unpack}
    exec(_source(groups, whole), namespace)  # noqa: S102 - made of numbers alone
    made: Callable[[bytes], str] = namespace["decimal"]
    return made


def _source(groups: list[tuple[int, int]], whole: int) -> str:
    names = [f"g{n}" for n in range(len(groups))]
    number = f"(g0 - {1 << (8 * groups[0][0] - 1)})"
    for name in names[1:whole]:
        number = f"({number} * {_WORD} + {name})"
    digits = "".join(
        f"{{{name}:0{count}d}}"
        for name, (_, count) in zip(names[whole:], groups[whole:], strict=True)
    )
    text = f"{{{number}}}" + (f".{digits}" if digits else "")
    return (
        "def decimal(raw):\n"
        "    if raw[0] < 128:\n"
        "        return plain(raw)\n"
        f"    {', '.join(names)}, = unpack(raw)\n"
        f"    return f'\"{text}\"'\n"
    )
