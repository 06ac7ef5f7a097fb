"""The sink's rules for column changes, so that their effect can be reported before it happens.

Invariant: these are the sink's own rules, repeated because the worker imports nothing of it; a test
compares the two. ``docs/sink.md`` describes them.
"""

from __future__ import annotations

import hashlib
import re

from connectors.mysql.types.registry import Kind, sql_type

RESERVED = frozenset(
    {
        "__destination", "__epoch", "__seq", "__deleted", "__schema", "__ts_ms", "__unrepresentable", "__delta",
        "__source_database", "__source_table", "__op", "__absent",
    }
)  # fmt: skip
"""Names of the sink's own columns, in lower case."""

_WIDENINGS = {("int", "bigint"), ("int", "double"), ("float", "double"), ("date", "timestamp_ntz")}
_MOST_DIGITS = 38
_NEEDED = {"int": (10, 0), "bigint": (20, 0)}
"""Digits that a decimal needs to hold any value of the type."""
_TAKEN = {"int": 9, "bigint": 18}
"""Digits of which the type holds any number."""
_TYPE = re.compile(r"([a-z]+)(?:\(([^)]*)\))?(.*)", re.DOTALL)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def warehouse_type(column_type: str) -> str | None:
    """The warehouse's type of a column; None if the sink supports none."""
    found = _TYPE.match(column_type.strip().lower())
    if found is None:
        return None
    base, arguments, rest = found.groups()
    unsigned = "unsigned" in rest.split() or "zerofill" in rest.split()
    numbers = tuple(int(one) for one in (arguments or "").split(",") if one.isdigit())
    return sql_type(base).warehouse(Kind(base=base, numbers=numbers, is_unsigned=unsigned))


def widened(held: str, wanted: str) -> str | None:
    """The type of a warehouse's column of type ``held`` widened for values of ``wanted``; None:
    impossible."""
    if held == wanted or _widens(wanted, held) or _is_small(wanted, held):
        return held
    if _widens(held, wanted):
        return wanted
    one, other = _digits(held), _digits(wanted)
    if one is None or other is None:
        return None
    whole, scale = max(one[0], other[0]), max(one[1], other[1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None


def warehouse_path(database: str, table: str) -> str:
    """A table's path below the warehouse's folder."""
    return f"{_folder(database)}/{_folder(table)}"


def _is_small(wanted: str, held: str) -> bool:
    digits = _digits(wanted)
    return held in _TAKEN and digits is not None and not digits[1] and digits[0] <= _TAKEN[held]


def _widens(narrow: str, wide: str) -> bool:
    if (narrow, wide) in _WIDENINGS:
        return True
    small, large = _digits(narrow), _digits(wide)
    if small is None or large is None or wide in _NEEDED:
        return False
    return large[0] >= small[0] and large[1] >= small[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point."""
    if kind in _NEEDED:
        return _NEEDED[kind]
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


_PLAIN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST = 200


def _folder(name: str) -> str:
    encoded = "".join(
        char if char in _PLAIN_CHARACTERS and (at or char not in "._") else _percent(char)
        for at, char in enumerate(name)
    )
    if len(encoded) <= _LONGEST:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{re.sub(r'%[0-9A-F]?$', '', encoded[:150])}%x{digest}"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
