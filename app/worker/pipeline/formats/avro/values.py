"""Values of the envelope as fastavro takes them for their Avro type."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from app.worker.pipeline.formats.column_kind import BYTES, GEOMETRIES, ColumnKind

ValueOf = Callable[[Any], Any]


def value_of(kind: ColumnKind) -> ValueOf | None:
    """Return the function of a column's values, to which NULL is not given; None: they stay as they are."""
    if kind.base in BYTES or kind.base == "bit":
        return base64.b64decode
    if kind.base in GEOMETRIES:
        return _geometry
    if kind.base == "decimal" or (kind.base == "bigint" and kind.is_unsigned):
        return Decimal
    if kind.base in ("float", "double"):
        return float
    if kind.base == "vector":
        return _floats
    return None


def _geometry(value: Any) -> Any:
    return {"srid": value["srid"], "wkb": base64.b64decode(value["wkb"])}


def _floats(value: Any) -> Any:
    return [float(one) for one in value]
