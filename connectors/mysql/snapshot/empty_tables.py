"""Which tables have no row that a SELECT sees now."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.server.facts import SourceAddress, connected
from connectors.mysql.snapshot.chunk_query import chunk_query


def empty_tables(address: SourceAddress, names: Iterable[TableName]) -> set[TableName]:
    """Return those of these tables; raise SourceRefused or SourceLost if one cannot be read."""
    found = set()
    with connected(address) as cursor:
        for name in names:
            cursor.execute(chunk_query(name, "1", key=(), after=None, limit=1))
            if not cursor.fetchall():
                found.add(name)
    return found
