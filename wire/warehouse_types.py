"""The types of the warehouse's columns, and the sink's own columns.

The sink creates tables by these rules; by the same rules the worker predicts what a statement will do to them.

Invariant: a value is held exactly or as the wire's text. Types are named as Spark's ``simpleString`` does, so
they compare as text.
"""

from __future__ import annotations

import re
from typing import Final

BOOKKEEPING: Final = (
    ("__destination", "string"),
    ("__epoch", "bigint"),
    ("__seq", "bigint"),
    ("__deleted", "boolean"),
    ("__schema", "int"),
    ("__ts_ms", "bigint"),
    ("__unrepresentable", "map<string,string>"),
)
DELTA_COLUMN: Final = ("__delta", "int")
SOURCE_COLUMNS: Final = (("__source_database", "string"), ("__source_table", "string"))
"""Only in a table filled from mapped tables; NULL in a row whose source table has the table's own name."""
HISTORY_COLUMNS: Final = (("__op", "string"), ("__absent", "array<string>"))
"""Only in a history: the operation, and the columns that the image lacks."""
OWN_COLUMNS: Final = frozenset(
    name for name, _ in (*BOOKKEEPING, DELTA_COLUMN, *SOURCE_COLUMNS, *HISTORY_COLUMNS)
)
"""The names that no column of a source may have, in lower case."""

GEOMETRY: Final = "struct<srid:bigint,wkb:binary>"
VECTOR: Final = "array<float>"
_INTEGERS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint"), ("int", "int")),
    **dict.fromkeys(("int", "integer"), ("int", "bigint")),
    "bigint": ("bigint", "decimal(20,0)"),
}
"""By MySQL type, the types of signed and of unsigned integers."""
_PLAIN: Final = {
    **dict.fromkeys(("bool", "boolean", "year"), "int"),
    "float": "float", "double": "double", "real": "double",
    "date": "date", "datetime": "timestamp_ntz", "timestamp": "timestamp",
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "time"),
        "string",
    ),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"), "binary"
    ),
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection", "multipoint",
         "multilinestring", "multipolygon"),
        GEOMETRY,
    ),
    "vector": VECTOR,
}  # fmt: skip
_WIDENINGS: Final = frozenset(
    {
        *(("int", "bigint"), ("int", "double"), ("float", "double"), ("date", "timestamp_ntz")),
        # For tables that were created before SRIDs of 2^31 or more were supported.
        ("struct<srid:int,wkb:binary>", GEOMETRY),
    }
)
_MOST_DIGITS: Final = 38
_NEEDED: Final = {"int": (10, 0), "bigint": (20, 0)}
"""Digits that a decimal needs to hold any value of the type, by Delta's rule."""
_TAKEN: Final = {"int": 9, "bigint": 18}
"""The number of digits up to which the type holds any number."""
_TYPE: Final = re.compile(r"([a-z]+)\s*(?:\(([^)]*)\))?(.*)", re.DOTALL)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def warehouse_type(column_type: str) -> str | None:
    """The warehouse's type for a MySQL column type; None if the sink does not support it."""
    found = _TYPE.match(column_type.strip().lower())
    if found is None:
        return None
    base, arguments, rest = found.groups()
    words = rest.split()
    if base in _INTEGERS:
        # ZEROFILL implies UNSIGNED.
        return _INTEGERS[base]["unsigned" in words or "zerofill" in words]
    if base in {"decimal", "numeric"}:
        numbers = [int(n) for n in (arguments or "").split(",") if n.strip().isdigit()]
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])[:2]
        return f"decimal({precision},{scale})" if precision <= _MOST_DIGITS else "string"
    return _PLAIN.get(base)


def widened(held: str, wanted: str) -> str | None:
    """The type that a warehouse column of type `held` needs to hold values of type `wanted` too.

    None if Delta cannot widen the column to that type without rewriting the table.
    """
    if held == wanted or _widens(wanted, held) or _is_small(wanted, held):
        return held
    if _widens(held, wanted):
        return wanted
    one, other = digits(held), digits(wanted)
    if one is None or other is None:
        return None
    whole, scale = max(one[0], other[0]), max(one[1], other[1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None


def digits(kind: str) -> tuple[int, int] | None:
    """The digits before and after the point of an exact numeric type; None for any other type."""
    if kind in _NEEDED:
        return _NEEDED[kind]
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _is_small(wanted: str, held: str) -> bool:
    narrow = digits(wanted)
    return held in _TAKEN and narrow is not None and not narrow[1] and narrow[0] <= _TAKEN[held]


def _widens(narrow: str, wide: str) -> bool:
    """Whether Delta can change a column of type `narrow` to `wide` in place."""
    if (narrow, wide) in _WIDENINGS:
        return True
    small, large = digits(narrow), digits(wide)
    if small is None or large is None or wide in _NEEDED:
        return False
    return large[0] >= small[0] and large[1] >= small[1]
