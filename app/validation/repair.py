"""The repair of a table: rows that are missing or different are read and published again.

Invariant: a request names rows by their keys, and a bounded number of them; rows that only the topic has are
not among them, as nothing that is read could remove them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.snapshot.chunk_query import quoted

MOST_KEYS = 200
"""Keys of one condition."""


class RequestRows(Protocol):
    """Requests of a running worker that it reads rows again, and publishes them."""

    async def __call__(self, table: TableName, condition: str, /) -> None:
        """Request the rows of a real table for which a condition of SQL is true."""


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
