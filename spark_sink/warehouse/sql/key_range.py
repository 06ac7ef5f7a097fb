"""The range of a batch's keys, by which a MERGE reads only the files that may hold one of them.

Invariant: a row outside the range has the key of no row of the batch, so the range excludes nothing that
matches. A format keeps the least and the greatest value of a column of a file, and compares them with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame

from spark_sink.names import literal, quoted
from spark_sink.warehouse.shape import Shape

_WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
_LONGEST_TEXT: Final = 200
"""Characters of a bound; a longer one would make the statement long, and excludes no more."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the greatest value of a column of the key in a batch."""

    name: str
    least: int | Decimal | str
    most: int | Decimal | str

    def sql(self) -> str:
        """The condition on a row `t` of the table that its value is between them."""
        return f"t.{quoted(self.name)} BETWEEN {_literal(self.least)} AND {_literal(self.most)}"


def key_bounds(shape: Shape, rows: DataFrame) -> list[Bound]:
    """The bounds of the columns of the key that have some; none without rows.

    Reads all rows, so they should be computed already.
    """
    names = _bounded(shape)
    if not names:
        return []
    bounds = [f"{bound}({quoted(name)})" for name in names for bound in ("min", "max")]
    found = list(rows.selectExpr(*bounds).collect()[0])
    return [
        Bound(name, least, most)
        for name, least, most in zip(names, found[::2], found[1::2], strict=True)
        if least is not None and not _is_long(least, most)
    ]


def range_sql(bounds: Iterable[Bound]) -> str:
    """The further condition on a row `t` of the table that a batch may have its key; empty without bounds."""
    return "".join(f" AND {one.sql()}" for one in bounds)


def _bounded(shape: Shape) -> list[str]:
    """The columns of the key that are never NULL, and are ordered as in a format's statistics."""
    if not shape.keyed:
        return ["__seq"]
    types = dict(shape.columns)
    return [name for name in shape.key if _is_ordered(types[name])]


def _is_ordered(kind: str) -> bool:
    return kind == "string" or kind.partition("(")[0] in _WHOLE_NUMBERS


def _is_long(*values: Any) -> bool:
    return any(isinstance(value, str) and len(value) > _LONGEST_TEXT for value in values)


def _literal(value: int | Decimal | str) -> str:
    if isinstance(value, str):
        return literal(value)
    return f"{value:f}BD" if isinstance(value, Decimal) else str(value)
