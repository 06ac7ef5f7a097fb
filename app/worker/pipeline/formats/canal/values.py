"""Values of the envelope as Canal writes them: each as a text, with its JDBC type.

Source: ``RowsLogBuffer.fetchValue`` and ``LogEventConvert.parseOneRow`` of Canal 1.1.9. An ENUM is the number
of its label, a SET a number with a bit for each label, and bytes are text in ISO 8859-1.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson

from app.worker.pipeline.formats.canal.java_numbers import java_number
from app.worker.pipeline.formats.column_kind import BYTES, GEOMETRIES, INTEGERS, TEXTS, ColumnKind

TextOf = Callable[[Any], str]
ValueOf = Callable[[str], Any]

_OTHER = 1111
_SQL_TYPES = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "decimal": 3, "float": 7,
    "double": 8, "bit": -7, "year": 12, "date": 91, "time": 92, "datetime": 93, "timestamp": 93,
    "char": 1, "varchar": 12, "json": 12, "enum": 4, "set": -7,
    **dict.fromkeys(TEXTS, 2005),
    **dict.fromkeys(BYTES | GEOMETRIES, 2004),
}  # fmt: skip
"""Numbers of ``java.sql.Types``, as Canal chooses them."""
_ABOVE_SIGNED = {
    "tinyint": (2**7, 5), "smallint": (2**15, 4), "mediumint": (2**23, 4), "int": (2**31, -5),
    "bigint": (2**63, 3),
}  # fmt: skip
"""The least unsigned value that no signed column of the type has, and the JDBC type of such values."""


def sql_type(kind: ColumnKind, value: Any) -> int:
    """Return the JDBC type of a column's value in the envelope."""
    if kind.is_unsigned and value is not None and kind.base in _ABOVE_SIGNED:
        least, larger = _ABOVE_SIGNED[kind.base]
        if value >= least:
            return larger
    return _SQL_TYPES.get(kind.base, _OTHER)


def text_of(kind: ColumnKind) -> TextOf | None:
    """Return the function of a column's values to texts, to which NULL is not given; None: they are texts."""
    base = kind.base
    if base in INTEGERS:
        return str
    if base in BYTES:
        return lambda value: base64.b64decode(value).decode("latin-1")
    if base in GEOMETRIES:
        return _geometry
    if base == "enum":
        return _enum(kind.labels)
    if base == "set":
        return _set(kind.labels)
    return _OF_BASE.get(base)


def _float(value: Any) -> str:
    return java_number(float(value), is_single=True)


def _double(value: Any) -> str:
    return java_number(float(value))


def _year(value: Any) -> str:
    return f"{value:04}"


def _time_of_day(value: Any) -> str:
    """``2026-11-21T10:15:00Z`` with a space and without ``Z``; a zero date has a space already."""
    return str(value).replace("T", " ").removesuffix("Z")


def _bit(value: Any) -> str:
    return str(int.from_bytes(base64.b64decode(value), "big"))


def _vector(value: Any) -> str:
    """Canal cannot read the type; this is the list as JSON."""
    return orjson.dumps(value).decode()


def _geometry(value: Any) -> str:
    """The bytes as MySQL stores them: the SRID, four bytes, before the WKB."""
    srid = int(value["srid"]).to_bytes(4, "little")
    return (srid + base64.b64decode(value["wkb"])).decode("latin-1")


_OF_BASE: dict[str, TextOf] = {
    "float": _float,
    "double": _double,
    "year": _year,
    "datetime": _time_of_day,
    "timestamp": _time_of_day,
    "bit": _bit,
    "vector": _vector,
}


def _enum(labels: tuple[str, ...]) -> TextOf:
    numbers = _numbers(labels)
    # The empty text without such a label is MySQL's error value.
    return lambda value: str(numbers[value] if value or "" in numbers else 0)


def _set(labels: tuple[str, ...]) -> TextOf:
    bits = {label: 1 << (number - 1) for label, number in _numbers(labels).items()}
    return lambda value: str(sum(bits[label] for label in value.split(",")) if value else 0)


def _numbers(labels: tuple[str, ...]) -> dict[str, int]:
    """Labels with their numbers; of equal ones, which MySQL allows without strict mode, the first."""
    return {label: number for number, label in reversed([*enumerate(labels, 1)])}


def value_of(kind: ColumnKind) -> ValueOf | None:
    """Return the function of a column's texts to values that have these texts; None: they stay texts."""
    base = kind.base
    if base in INTEGERS or base == "year":
        return int
    if base in BYTES:
        return lambda text: _base64(text.encode("latin-1"))
    if base in GEOMETRIES:
        return _geometry_value
    if base == "enum":
        return lambda text: kind.labels[int(text) - 1] if int(text) else ""
    if base == "set":
        return lambda text: ",".join(
            label for number, label in enumerate(kind.labels) if int(text) >> number & 1
        )
    return _VALUE_OF_BASE.get(base)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _geometry_value(text: str) -> dict[str, Any]:
    raw = text.encode("latin-1")
    return {"srid": int.from_bytes(raw[:4], "little"), "wkb": _base64(raw[4:])}


def _bit_value(text: str) -> str:
    number = int(text)
    return _base64(number.to_bytes(number.bit_length() // 8 + 1, "big"))


_VALUE_OF_BASE: dict[str, ValueOf] = {
    "float": float,
    "double": float,
    "bit": _bit_value,
    "vector": orjson.loads,
}
