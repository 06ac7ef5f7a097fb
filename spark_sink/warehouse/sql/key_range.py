"""The range of a batch's keys, by which a MERGE reads only the files that may hold one of them.

Invariant: a row outside the range has the key of no row of the batch, so the range excludes nothing that
matches. A format keeps the least and the greatest value of a column of a file, and compares them with it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame

from spark_sink.names import literal, quoted
from spark_sink.warehouse.shape import Shape

_WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
_LONGEST_TEXT: Final = 200
"""Characters of a bound; a longer one would make the statement long, and excludes no more."""


def key_range_sql(shape: Shape, rows: DataFrame) -> str:
    """The condition on a row `t` of the table that `rows` may have its key; empty if there is none.

    Reads all rows, so they must be at hand.
    """
    names = _bounded(shape)
    if not names:
        return ""
    bounds = [f"{bound}({quoted(name)})" for name in names for bound in ("min", "max")]
    found = list(rows.selectExpr(*bounds).collect()[0])
    return "".join(
        f" AND t.{quoted(name)} BETWEEN {_literal(least)} AND {_literal(most)}"
        for name, least, most in zip(names, found[::2], found[1::2], strict=True)
        if least is not None and not _is_long(least, most)
    )


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
