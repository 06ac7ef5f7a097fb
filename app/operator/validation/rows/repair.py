"""The repair of a table: rows that are missing or different are published again, and extra ones deleted.

Invariant: a request names rows by their keys, and a bounded number of them. The worker reads them all: rows
that the source has are published, whatever was found before, and only a key of which it has none is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from app.operator.validation.rows.extra_rows import ExtraRow
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.chunk_query import quoted

MOST_KEYS = 200
"""Keys of one condition."""


class RequestRows(Protocol):
    """Requests of a running worker that it reads rows again, and publishes them."""

    async def __call__(
        self, table: TableName, condition: str, removes: tuple[str, ...] = (), /
    ) -> None:
        """Request the rows of a real table for which a condition of SQL is true.

        ``removes``: keys of records, which are deleted if none of these rows has them.
        """


def conditions(
    key: Sequence[str], keys: Iterable[tuple[str, ...]], *, most: int = MOST_KEYS
) -> Iterator[str]:
    """Yield conditions that rows with these keys meet together.

    ``key``: the names of the key's columns; ``keys``: literals of each key.
    """
    names = [quoted(one) for one in key]
    remaining = iter(keys)
    while some := list(islice(remaining, most)):
        if len(names) == 1:
            yield f"{names[0]} IN ({', '.join(one for (one,) in some)})"
        else:
            yield " OR ".join(_equal(names, one) for one in some)


def _equal(names: Sequence[str], literals: tuple[str, ...]) -> str:
    pairs = zip(names, literals, strict=True)
    return f"({' AND '.join(f'{name} = {literal}' for name, literal in pairs)})"


async def request_repair(
    request: RequestRows, table: TableName, key: Sequence[str], keys: Iterable[tuple[str, ...]]
) -> int:
    """Request the rows of a table with these keys; return the count of requests."""
    count = 0
    for condition in conditions(key, keys):
        await request(table, condition)
        count += 1
    return count


async def request_removal(
    request: RequestRows, table: TableName, key: Sequence[str], rows: Sequence[ExtraRow]
) -> int:
    """Request that these rows are deleted unless the source has them; return the count of requests."""
    count = 0
    for first in range(0, len(rows), MOST_KEYS):
        some = rows[first : first + MOST_KEYS]
        (condition,) = conditions(key, (one.literals for one in some))
        await request(table, condition, tuple(one.key for one in some))
        count += 1
    return count
