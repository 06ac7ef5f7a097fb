"""The range of a batch's keys, with which a MERGE reads only files and rows that may have one of these keys.

A format stores the least and the greatest value of a column in each file, and compares them with the range. For
a large table, the range lists the keys of a small batch: Spark then drops other rows as it reads the files.
Otherwise a join drops them, which sorts the whole table, as a MERGE that inserts cannot broadcast its source.

Invariant: a row outside the range has the key of no row of the batch, so nothing that matches is excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame

from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.shape import Shape

_WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
_LONGEST_TEXT: Final = 200
"""Characters of a bound; a longer one would make the statement long, and excludes no more."""
_FEW: Final = 10_000
"""The most rows of a batch whose keys are listed: the statement is still parsed in a fraction of a second."""
LARGE: Final = 64 * 1024 * 1024
"""Bytes of a table from which keys are listed. Formats store the statement, list included, with the commit."""
Key = int | Decimal | str


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the greatest value of a column of the key in a batch."""

    name: str
    least: Key
    most: Key
    values: frozenset[Key] = frozenset()
    """All values of the batch, for the key column with the most values; empty if a list excludes no more."""

    def sql(self) -> str:
        """The condition that the value of a row `t` of the table is within the bounds, and one of `values`."""
        name = f"t.{quoted(self.name)}"
        between = f"{name} BETWEEN {_literal(self.least)} AND {_literal(self.most)}"
        if not self.values:
            return between
        listed = ", ".join(map(_literal, sorted(self.values, key=order)))
        return f"{between} AND {name} IN ({listed})"


def key_bounds(shape: Shape, rows: DataFrame, *, is_large: bool = False) -> list[Bound]:
    """Return the bounds of the key's columns, where possible; none without rows. `is_large` is of the table.

    All rows are read, so they should be computed already.
    """
    names = _bounded(shape)
    if not names:
        return []
    if is_large and shape.keyed:
        # If the driver holds the rows, this starts no job.
        found = rows.select(*map(quoted, names)).limit(_FEW + 1).collect()
        if len(found) <= _FEW:
            return _listed(names, found)
    bounds = [f"{bound}({quoted(name)})" for name in names for bound in ("min", "max")]
    ends = list(rows.selectExpr(*bounds).collect()[0])
    return _usable(Bound(*of) for of in zip(names, ends[::2], ends[1::2], strict=True))


def _listed(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Bound]:
    """The bounds of rows that the driver holds, with the values of one column."""
    values = {name: {row[number] for row in rows} - {None} for number, name in enumerate(names)}
    bounds = _usable(
        Bound(name, min(of, key=order), max(of, key=order)) for name, of in values.items() if of
    )
    if not bounds:
        return []
    best = max(bounds, key=lambda one: len(values[one.name]))
    of = frozenset(values[best.name])
    if len(of) == 1 or _is_without_gaps(best, len(of)) or _is_long(*of):
        return bounds
    return [replace(one, values=of) if one is best else one for one in bounds]


def _usable(bounds: Iterable[Bound]) -> list[Bound]:
    """The bounds that have values, and no long ones."""
    return [one for one in bounds if one.least is not None and not _is_long(one.least, one.most)]


def _is_without_gaps(bound: Bound, values: int) -> bool:
    """Whether that many whole numbers are all that the bounds include."""
    least, most = bound.least, bound.most
    return not isinstance(least, str) and not isinstance(most, str) and most - least < values


def range_sql(bounds: Iterable[Bound]) -> str:
    """The further condition that a batch may have the key of a row `t` of the table; empty without bounds."""
    return "".join(f" AND {one.sql()}" for one in bounds)


def _bounded(shape: Shape) -> list[str]:
    """The columns of the key that are never NULL, and are ordered as in a format's statistics."""
    if not shape.keyed:
        return ["__seq"]
    types = dict(shape.columns)
    return [
        name
        for name in shape.key
        if types[name] == "string" or types[name].partition("(")[0] in _WHOLE_NUMBERS
    ]


def order(value: Key) -> Any:
    """What a format orders a value by: for text, its bytes."""
    return value.encode() if isinstance(value, str) else value


def _is_long(*values: Any) -> bool:
    return any(isinstance(value, str) and len(value) > _LONGEST_TEXT for value in values)


def _literal(value: Key) -> str:
    if isinstance(value, str):
        return literal(value)
    return f"{value:f}BD" if isinstance(value, Decimal) else str(value)
