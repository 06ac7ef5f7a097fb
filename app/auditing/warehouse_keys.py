"""A row's key in one form, whoever tells it: a record, by its version of the columns, or the warehouse.

The law: names in lower case and in their order by that, since to the sink a key of the same columns is the same
key however they are spelled and ordered; of values, what is equal is told equally.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from app.auditing.warehouse_values import EXACT, TEMPORAL, moment

_BASE = re.compile(r"[a-z]+")
_HELD_EXACT = frozenset({"tinyint", "smallint", "int", "bigint", "decimal"})
_HELD_TEMPORAL = frozenset({"date", "timestamp", "timestamp_ntz"})

Form = Callable[[Any], Any]


def of_record(key: bytes, types: Mapping[str, str]) -> bytes:
    """The form of a record's key, or itself where it is none; ``types`` are MySQL's, by the columns' names."""
    try:
        told = orjson.loads(key)
        return _written({n: _wire_form(types.get(n, ""))(value) for n, value in told.items()})
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return key


def of_row(
    key: Sequence[str],
    values: Mapping[str, Any],
    kinds: Mapping[str, str],
    unrepresentable: Mapping[str, str],
) -> bytes:
    """The form of a row of the warehouse; all names are in lower case, ``kinds`` are Spark's types."""
    told = {}
    for name in key:
        value = values[name]
        if value is None and name in unrepresentable:
            value = unrepresentable[name]
        told[name] = None if value is None else _held_form(kinds[name])(value)
    return _written(told)


def _written(values: Mapping[str, Any]) -> bytes:
    named = {name.lower(): value for name, value in values.items()}
    return orjson.dumps(named, option=orjson.OPT_SORT_KEYS)


@cache
def _wire_form(mysql_type: str) -> Form:
    found = _BASE.match(mysql_type)
    base = found[0] if found else ""
    if base in EXACT:
        return _exact
    if base == "float":
        return _single
    if base in ("double", "real"):
        return float
    return moment if base in TEMPORAL else _same


@cache
def _held_form(kind: str) -> Form:
    base = kind.partition("(")[0]
    if base in _HELD_EXACT:
        return _exact
    if base == "float":
        return _single
    if base == "double":
        return float
    return moment if base in _HELD_TEMPORAL else _same


def _exact(value: Any) -> str:
    """A number's digits, without zeros at the end of its fraction; never rounded."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _single(value: Any) -> float:
    """As a column that was widened since holds it."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def _same(value: Any) -> Any:
    return value
