"""The ranges of a table's primary key that are read at a time.

Invariant: each row is in exactly one range. A range ends where the next one begins, in the server's own order
of the key; the first and the last range are open. The limits affect only how even the ranges are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spark_sink.errors import RowsRefused
from spark_sink.jobs.load.mysql_sql import identifier, literals, whole_name
from spark_sink.jobs.load.server import SourceServer, Table

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_NUMBERS: Final = _INTEGERS | {"decimal", "year"}
_TIMES: Final = frozenset({"date", "time", "datetime", "timestamp"})
_TEXT: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_MOST: Final = 20_000
"""The most ranges of a table."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the primary key, and its type as `information_schema.columns.data_type` has it."""

    name: str
    kind: str

    @property
    def sql(self) -> str:
        """The expression that returns a value of the column in a form that `literal` takes."""
        column = identifier(self.name)
        if self.kind in _TEXT:
            return f"HEX(CONVERT({column} USING utf8mb4))"
        if self.kind in _NUMBERS or self.kind in _TIMES:
            return f"CAST({column} AS CHAR)"
        if self.kind in ("enum", "set", "bit"):
            return f"CAST({column} + 0 AS CHAR)"
        if self.kind in ("float", "double"):
            return f"CAST({column} + 0e0 AS CHAR)"
        return f"HEX({column})"

    def literal(self, value: str) -> str:
        """Return an expression for a value; its result may differ, as it is only a limit between two ranges."""
        if self.kind in _TEXT:
            return f"_utf8mb4 X'{_hex(value)}'"
        if self.kind in _TIMES:
            return literals([value])
        if self.kind in _NUMBERS or self.kind in ("enum", "set", "bit", "float", "double"):
            if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", value):
                raise RowsRefused(f"{value!r} is no value of the key's column {self.name}")
            return value
        return f"X'{_hex(value)}'"


def key_ranges(
    server: SourceServer, table: Table, key: Sequence[KeyColumn], *, rows: int
) -> list[str]:
    """Return the conditions of ranges of about `rows` rows each; one that is always true for a small table.

    Raise RowsRefused, TableUnreadable.
    """
    if len(key) == 1 and key[0].kind in _INTEGERS:
        limits: Iterator[tuple[str, ...]] = _even_limits(server, table, key[0], rows=rows)
    else:
        limits = _found_limits(server, table, key, rows=rows)
    return conditions(key, list(limits))


def conditions(key: Sequence[KeyColumn], limits: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the conditions of the ranges between limits, which are values of the key in its order."""
    if not limits:
        return ["TRUE"]
    columns = [identifier(column.name) for column in key]
    values = [
        [column.literal(value) for column, value in zip(key, limit, strict=True)]
        for limit in limits
    ]
    inner = [
        f"({_from(columns, low)}) AND ({_before(columns, high)})" for low, high in pairwise(values)
    ]
    return [_before(columns, values[0]), *inner, _from(columns, values[-1])]


def _even_limits(
    server: SourceServer, table: Table, key: KeyColumn, *, rows: int
) -> Iterator[tuple[str, ...]]:
    """Limits of an integer key between ranges that are small enough by the server's estimate."""
    column = identifier(key.name)
    ends = f"SELECT MIN({column}), MAX({column}) FROM {whole_name(table)}"  # noqa: S608
    low, high = server.ask(ends, table=table)[0]
    if low is None or high is None:
        return
    found: list[int] = []
    parts = [(int(low), int(high) + 1)]
    while parts and len(found) < _MOST:
        first, end = parts.pop()
        if end - first <= rows or _estimate(server, table, column, first, end) <= rows:
            continue
        middle = first + (end - first) // 2
        found.append(middle)
        parts += [(first, middle), (middle, end)]
    for one in sorted(found):
        yield (str(one),)


def _estimate(server: SourceServer, table: Table, column: str, first: int, end: int) -> int:
    """The number of rows in a range, as the server estimates it from the index."""
    within = f"{column} >= {first} AND {column} < {end}"
    select = f"SELECT 1 FROM {whole_name(table)} WHERE {within}"  # noqa: S608
    explained = server.ask(f"EXPLAIN FORMAT=TRADITIONAL {select}", table=table)
    # id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra
    estimated, share = explained[0][9], explained[0][10]
    return int(int(estimated or 0) * float(share or 100) / 100)


def _found_limits(
    server: SourceServer, table: Table, key: Sequence[KeyColumn], *, rows: int
) -> Iterator[tuple[str, ...]]:
    """The keys after every `rows` rows, found by walking along the index."""
    columns = [identifier(column.name) for column in key]
    select = ", ".join(column.sql for column in key)
    order, last = ", ".join(columns), None
    for _ in range(_MOST):
        where = f" WHERE {last}" if last else ""
        found = server.ask(
            f"SELECT {select} FROM {whole_name(table)}{where} ORDER BY {order} LIMIT 1 OFFSET {rows}",  # noqa: S608
            table=table,
        )
        if not found:
            return
        limit = tuple(value or "" for value in found[0])
        following = _from(columns, [c.literal(v) for c, v in zip(key, limit, strict=True)])
        if following == last:
            # The limit is not the key itself, for example a text in a character set that Unicode lacks.
            return
        last = following
        yield limit


def _from(columns: Sequence[str], values: Sequence[str]) -> str:
    """The condition on keys from `values` on.

    MySQL derives no index range from a comparison of rows, so the comparison is written out, with the first
    column's range as a condition of its own.
    """
    first, value = columns[0], values[0]
    if len(columns) == 1:
        return f"{first} >= {value}"
    rest = _from(columns[1:], values[1:])
    return f"{first} >= {value} AND ({first} > {value} OR ({first} = {value} AND ({rest})))"


def _before(columns: Sequence[str], values: Sequence[str]) -> str:
    """The condition on keys before `values`."""
    first, value = columns[0], values[0]
    if len(columns) == 1:
        return f"{first} < {value}"
    rest = _before(columns[1:], values[1:])
    return f"{first} <= {value} AND ({first} < {value} OR ({first} = {value} AND ({rest})))"


def _hex(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]*", value):
        raise RowsRefused(f"{value!r} is no key in hexadecimal digits")
    return value
