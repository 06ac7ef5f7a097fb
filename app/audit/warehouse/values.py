"""One form for the key and the values of a row, from the wire and from the warehouse.

Invariant: values are equal by value, not by text: ``12.5`` is ``12.50``, and a widened column holds its older
values in its newer type. Source: docs/wire.md and docs/sink/ddl.md, and none of the sink's code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any

import orjson

from tables.history.present_columns import Present


class Sort(Enum):
    """The form of a type's values, which determines equality."""

    EXACT = auto()
    SINGLE = auto()
    DOUBLE = auto()
    MOMENT = auto()
    VECTOR = auto()
    PLAIN = auto()
    """Values are compared as they are."""


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
            # A value that Spark cannot represent is kept as the wire's text.
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
    """A date or time without differences of mere form: ``T``, ``Z``, trailing zeros, midnight."""
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
"""The conversion of a value, from the wire or from the warehouse, to a comparable form."""


# A row's key in one form, from a record and its version of the columns, or from the warehouse.
#
# Invariant: names are in lower case and sorted, since the sink treats keys of the same columns, in any spelling
# and order, as one key; equal values have equal forms.


_HELD = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), Sort.EXACT),
    "float": Sort.SINGLE,
    "double": Sort.DOUBLE,
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), Sort.MOMENT),
}
"""By Spark's types, without the text in parentheses."""


def of_record(key: bytes, present: Present) -> bytes:
    """Return the form of a record's key, with its columns' present names; other keys stay as they are."""
    try:
        fields = orjson.loads(key)
        named = {present.name(name): value for name, value in fields.items()}
        types = present.types
        return _written({n: _form(sort_of(types.get(n, "")), value) for n, value in named.items()})
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return key


def of_row(
    key: Sequence[str],
    values: Mapping[str, Any],
    kinds: Mapping[str, str],
    unrepresentable: Mapping[str, str],
) -> bytes:
    """The form of a row of the warehouse; all names are in lower case, ``kinds`` are Spark's types."""
    fields = {}
    for name in key:
        value = values[name]
        if value is None and name in unrepresentable:
            value = unrepresentable[name]
        sort = _HELD.get(kinds[name].partition("(")[0], Sort.PLAIN)
        fields[name] = None if value is None else _form(sort, value)
    return _written(fields)


def _written(values: Mapping[str, Any]) -> bytes:
    named = {name.lower(): value for name, value in values.items()}
    return orjson.dumps(named, option=orjson.OPT_SORT_KEYS)


def _key_exact(value: Any) -> str:
    """A number's digits, without zeros at the end of its fraction; never rounded."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _key_single(value: Any) -> float:
    """The value as it is in a column that was widened later."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


_KEY_FORMS: dict[Sort, Callable[[Any], Any]] = {
    Sort.EXACT: _key_exact,
    Sort.SINGLE: _key_single,
    Sort.DOUBLE: float,
    Sort.MOMENT: moment,
}


def _form(sort: Sort, value: Any) -> Any:
    form = _KEY_FORMS.get(sort)
    return value if form is None else form(value)
