"""The kind of a column's values, from the type of a table version.

Invariant: the type is the text of the schemas topic, ``docs/wire.md``: in lower case, and with labels in which
only quotes are doubled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?( unsigned)?", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")

GEOMETRIES = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
})  # fmt: skip
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnKind:
    """A type without its lengths."""

    base: str
    """For example ``bigint`` or ``enum``."""
    is_unsigned: bool = False
    labels: tuple[str, ...] = ()
    """Those of an ENUM or SET."""


def kind_of(column_type: str) -> ColumnKind:
    """Return the kind of a type such as ``enum('a','b')``; raise ValueError for a text that is no type."""
    match = _TYPE.fullmatch(column_type)
    if match is None:
        raise ValueError(f"{column_type!r} is not the type of a column")
    base, arguments, unsigned = match.groups()
    labels = _LABEL.findall(arguments or "") if base in ("enum", "set") else ()
    return ColumnKind(
        base=base,
        is_unsigned=unsigned is not None,
        labels=tuple(one.replace("''", "'") for one in labels),
    )
