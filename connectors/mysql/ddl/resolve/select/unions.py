"""The columns of a UNION.

Invariant: two columns of one type keep it, two texts take the longer length; any other merge is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.mysql.ddl.definition import Column
from connectors.mysql.ddl.resolve.columns import Refused
from connectors.mysql.ddl.resolve.select.strings import longest

_CHANGED = ("text", "blob", "enum", "set", "bit", "json", "geometry", "point")
"""Types that a UNION changes."""


def united(left: Sequence[Column], right: Sequence[Column]) -> list[Column]:
    """The columns, under the names of the first query."""
    if len(left) != len(right):
        raise Refused("its query's parts have different numbers of columns")
    return [_one(a, b) for a, b in zip(left, right, strict=True)]


def _one(a: Column, b: Column) -> Column:
    nullable = a.nullable or b.nullable
    if "varbinary(0)" in (a.type, b.type):
        return replace(
            b if a.type == "varbinary(0)" else a, name=a.name, nullable=True, definition=""
        )
    if a.charset is not None and (a.type != b.type or a.collation != b.collation):
        return replace(longest([a, b]), name=a.name, nullable=nullable)
    word = a.type.partition("(")[0]
    if a.type != b.type or word.endswith(_CHANGED) or word in ("char", "binary"):
        raise Refused(f"a UNION of {a.type} and {b.type} in its query is not certain")
    return replace(a, nullable=nullable, definition="")
