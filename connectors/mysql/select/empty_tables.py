"""Tables in which a SELECT sees no row now."""

from __future__ import annotations

from collections.abc import Iterable

import pymysql

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.chunk_query import chunk_query
from connectors.mysql.select.table_errors import error_of_read
from connectors.mysql.server.facts import SourceAddress, connected


def empty_tables(address: SourceAddress, names: Iterable[TableName]) -> set[TableName]:
    """Return the empty tables among ``names``; raise TableUnreadable, or an error of the source."""
    found = set()
    with connected(address) as cursor:
        for name in names:
            try:
                cursor.execute(chunk_query(name, "1", key=(), after=None, limit=1))
            except pymysql.MySQLError as error:
                raise error_of_read(error, name, address) from error
            if not cursor.fetchall():
                found.add(name)
    return found
