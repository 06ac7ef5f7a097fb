"""A destination's source as a load uses it: the server that is read, and the cursor of what is published.

Invariant: a SELECT begins once the server shows all transactions of the low cursor. What the SELECT saw is
published once the cursor has all transactions that the server showed after the SELECT. Each row is in exactly
one range of its table's key. A range ends where the next one begins, in the server's own order of the key; the
first and the last range are open. The limits affect only how even the ranges are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spark_sink.errors import LoadStale, RowsRefused
from spark_sink.jobs.load.cursor import Cursors, SourceCursor
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import (
    SourceServer,
    Table,
    identifier,
    literals,
    wait_for,
    whole_name,
)

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
        f"({_beyond('>', columns, low)}) AND ({_beyond('<', columns, high)})"
        for low, high in pairwise(values)
    ]
    return [_beyond("<", columns, values[0]), *inner, _beyond(">", columns, values[-1])]


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
        following = _beyond(">", columns, [c.literal(v) for c, v in zip(key, limit, strict=True)])
        if following == last:
            # The limit is not the key itself, for example a text in a character set that Unicode lacks.
            return
        last = following
        yield limit


def _beyond(sign: str, columns: Sequence[str], values: Sequence[str]) -> str:
    """The condition on keys from `values` on (sign `>`), or on keys before `values` (sign `<`).

    MySQL derives no index range from a comparison of rows, so the comparison is written out, with the first
    column's range as a condition of its own.
    """
    first, value = columns[0], values[0]
    if len(columns) == 1:
        return f"{first} {'>=' if sign == '>' else '<'} {value}"
    rest = _beyond(sign, columns[1:], values[1:])
    return (
        f"{first} {sign}= {value} AND ({first} {sign} {value} OR ({first} = {value} AND ({rest})))"
    )


def _hex(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]*", value):
        raise RowsRefused(f"{value!r} is no key in hexadecimal digits")
    return value


BEGIN: Final = "Make a new plan (python -m app snapshot plan), and load it with --again"
_WIDTH: Final = re.compile(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)")


@dataclass(slots=True, kw_only=True)
class Origin:
    """The source of one destination."""

    server: SourceServer
    cursors: Cursors
    stopped: Callable[[float], bool]
    """Waits so many seconds, and returns whether to stop."""
    timeout: float

    def low(self) -> SourceCursor:
        """Return the present cursor of the stream. Raise LoadRefused, KafkaUnreachable."""
        return self.cursors.between(seconds=self.timeout, stopped=self.stopped)

    def wait_for(self, low: SourceCursor) -> None:
        """Wait until a SELECT sees all that was published up to a cursor. Raise LoadRefused."""
        wait_for(self.server, low.gtids, seconds=self.timeout, stopped=self.stopped)

    def await_published(self, low: SourceCursor, highs: Collection[str]) -> None:
        """Wait until the stream has all transactions of the sets `highs`. Raise LoadRefused, LoadStale."""

        def is_past(now: SourceCursor) -> bool:
            self.check_unmoved(low, now)
            return all(self.server.contains(now.gtids, high) for high in highs)

        self.cursors.wait_past(is_past, seconds=self.timeout, stopped=self.stopped)

    def check_unmoved(self, low: SourceCursor, now: SourceCursor) -> None:
        """Raise LoadStale if the cursor was set by anything but the stream between `low` and `now`."""
        if (now.installation, now.by) != (low.installation, low.by):
            raise LoadStale(
                f"the cursor of {self.cursors.destination} was set to another position since the load began",
                advice=BEGIN,
            )

    def check_columns(self, source: SourceTable) -> None:
        """Raise LoadStale if a column differs from the plan, TableUnreadable if it may not be read."""
        there = {column: kind for column, kind, _ in self._columns(source)}
        if lacking := [column for _, column, _ in source.columns if column not in there]:
            # The account does not see columns on which it has no privilege.
            self.server.check_readable(source.real, lacking)
        for _, column, kind in source.columns:
            if column not in there or _plain(there[column]) != _plain(kind):
                raise LoadStale(
                    f"column {column} of {source.database}.{source.table} is {there.get(column, 'gone')} "
                    f"at the source, and {kind} in the plan",
                    advice=BEGIN,
                )

    def ranges(self, source: SourceTable, *, rows: int) -> list[str]:
        """Return the conditions of ranges of about `rows` rows each."""
        kinds = {name: base for name, _, base in self._columns(source)}
        key = [KeyColumn(name, kinds[name]) for name in source.key]
        return key_ranges(self.server, source.real, key, rows=rows)

    def _columns(self, source: SourceTable) -> list[tuple[str, str, str]]:
        rows = self.server.ask(
            "SELECT column_name, column_type, data_type FROM information_schema.columns WHERE "  # noqa: S608
            f"(table_schema, table_name) = ({literals(source.real)})"
        )
        return [(name or "", kind or "", base or "") for name, kind, base in rows]


def _plain(column_type: str) -> str:
    """A type without a display width, which only some servers print."""
    return _WIDTH.sub(r"\1", column_type.lower())
