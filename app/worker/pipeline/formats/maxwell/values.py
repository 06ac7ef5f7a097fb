"""Values of the envelope as Maxwell writes them, typed.

Source: Maxwell's ``schema/columndef``, and ``docs/dataformat.md`` of its documentation. A decimal is a number
with all of its digits, JSON is part of the record, a SET a list, and a geometry well-known text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson

from app.worker.pipeline.formats.column_kind import GEOMETRIES, ColumnKind
from app.worker.pipeline.formats.maxwell.well_known_text import well_known_bytes, well_known_text

ValueOf = Callable[[Any], Any]


def value_of(kind: ColumnKind) -> ValueOf | None:
    """Return the function of a column's values, to which NULL is not given; None: they stay as they are."""
    if kind.base in GEOMETRIES:
        return _geometry
    if kind.base == "enum" and "" not in kind.labels:
        return _enum
    return _OF_BASE.get(kind.base)


def _decimal(value: Any) -> Any:
    return orjson.Fragment(value)


def _json(value: Any) -> Any:
    """The document itself; a text that is none, such as a very deep one, stays a text."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return orjson.Fragment(value)


def _time_of_day(value: Any) -> str:
    """``2026-11-21T10:15:00Z`` with a space and without ``Z``; a zero date has a space already."""
    return str(value).replace("T", " ").removesuffix("Z")


def _bit(value: Any) -> int:
    return int.from_bytes(base64.b64decode(value), "big")


def _set(value: Any) -> list[str]:
    return value.split(",") if value else []


def _enum(value: Any) -> str | None:
    """Null for MySQL's error value, which is the empty text in the envelope."""
    return value or None


def _geometry(value: Any) -> str:
    return well_known_text(base64.b64decode(value["wkb"]))


_OF_BASE: dict[str, ValueOf] = {
    "decimal": _decimal,
    "json": _json,
    "datetime": _time_of_day,
    "timestamp": _time_of_day,
    "bit": _bit,
    "set": _set,
}


def restored(kind: ColumnKind) -> ValueOf | None:
    """Return the function of a column's values, as read, to those of the envelope that are written like them;
    None: they stay as they are. Numbers are read as they are written."""
    if kind.base in GEOMETRIES:
        return _restored_geometry
    return _RESTORED.get(kind.base)


def _text(value: Any) -> str:
    """A part of a record as it is written."""
    return orjson.dumps(value).decode()


def _restored_bit(value: Any) -> str:
    number = int(_text(value))
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big")).decode()


def _restored_geometry(value: str) -> dict[str, Any]:
    """The SRID is not in a record."""
    return {"srid": 0, "wkb": base64.b64encode(well_known_bytes(value)).decode()}


_RESTORED: dict[str, ValueOf] = {
    "decimal": _text,
    "json": _text,
    "bit": _restored_bit,
    "set": ",".join,
}
