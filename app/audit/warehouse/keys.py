"""A row's key in one form, from a record, by its version of the columns, or from the warehouse.

Invariant: names are in lower case and sorted, since to the sink a key of the same columns is the
same key in any spelling and order; equal values have equal forms.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from app.audit.warehouse.present_columns import Present
from app.audit.warehouse.values import Sort, moment, sort_of

_HELD = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), Sort.EXACT),
    "float": Sort.SINGLE,
    "double": Sort.DOUBLE,
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), Sort.MOMENT),
}
"""By Spark's types, without the text in parentheses."""


def of_record(key: bytes, present: Present) -> bytes:
    """The form of a record's key, with the present names of its columns, or the key itself if it has none."""
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


def _exact(value: Any) -> str:
    """A number's digits, without zeros at the end of its fraction; never rounded."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _single(value: Any) -> float:
    """In the form of a column that was widened since."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


_FORMS: dict[Sort, Callable[[Any], Any]] = {
    Sort.EXACT: _exact,
    Sort.SINGLE: _single,
    Sort.DOUBLE: float,
    Sort.MOMENT: moment,
}


def _form(sort: Sort, value: Any) -> Any:
    form = _FORMS.get(sort)
    return value if form is None else form(value)
