"""Comparison of a value of the wire with one of the warehouse.

Invariant: values are equal by value, not by text: ``12.5`` is ``12.50``, and a column that was
widened since holds its older values in its newer type. Source: docs/wire.md and docs/sink/ddl.md, and
nothing of the sink's code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any


class Sort(Enum):
    """The form of a type's values, which determines equality."""

    EXACT = auto()
    SINGLE = auto()
    DOUBLE = auto()
    MOMENT = auto()
    VECTOR = auto()
    PLAIN = auto()
    """Equal as they are."""


_EXACT = (
    "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bool", "boolean",
    "decimal", "numeric",
)  # fmt: skip
_SORTS = {
    **dict.fromkeys(_EXACT, Sort.EXACT),
    "float": Sort.SINGLE,
    **dict.fromkeys(("double", "real"), Sort.DOUBLE),
    **dict.fromkeys(("date", "datetime", "timestamp"), Sort.MOMENT),
    "vector": Sort.VECTOR,
}
_BASE = re.compile(r"[a-z]+")


def sort_of(mysql_type: str) -> Sort:
    """The sort of a type as `column_type` prints it."""
    found = _BASE.match(mysql_type)
    return _SORTS.get(found[0], Sort.PLAIN) if found else Sort.PLAIN


def different(
    image: Mapping[str, Any],
    types: Mapping[str, str],
    held: Mapping[str, Any],
    unrepresentable: Mapping[str, str],
) -> str | None:
    """The column in which a row of the warehouse differs from the wire; None if there is none.

    Names in ``held`` and ``unrepresentable`` are in lower case, as the warehouse does not
    distinguish case.
    """
    for name, value in image.items():
        own = name.lower()
        if own not in held:
            return name
        if value is None or held[own] is None:
            # What Spark has no value for is kept as the wire's text.
            if value is None and held[own] is None and own not in unrepresentable:
                continue
            if held[own] is None and unrepresentable.get(own) == value and value is not None:
                continue
            return name
        form = _FORMS[sort_of(types.get(name, ""))]
        try:
            if form(value) != form(held[own]):
                return name
        except (ValueError, TypeError, InvalidOperation, OverflowError):
            return name
    absent = held.keys() - {name.lower() for name in image}
    return next((name for name in sorted(absent) if held[name] is not None), None)


def _exact(value: Any) -> Decimal:
    return Decimal(str(value))


def _single(value: Any) -> bytes:
    return struct.pack("<f", float(value))


def moment(value: str) -> str:
    """A date or time without mere form: ``T``, ``Z``, trailing zeros, midnight."""
    day, _, time = value.replace("T", " ").removesuffix("Z").partition(" ")
    whole, _, fraction = time.partition(".")
    return f"{day} {whole or '00:00:00'}.{fraction.rstrip('0')}"


def _vector(value: list[Any]) -> list[bytes]:
    return [_single(one) for one in value]


def _plain(value: Any) -> Any:
    return value


_FORMS: dict[Sort, Callable[[Any], Any]] = {
    Sort.EXACT: _exact,
    Sort.SINGLE: _single,
    Sort.DOUBLE: float,
    Sort.MOMENT: moment,
    Sort.VECTOR: _vector,
    Sort.PLAIN: _plain,
}
"""The conversion of both forms of a value to a comparable one."""
