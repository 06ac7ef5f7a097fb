"""The primary key that MySQL can generate for a table without one: an invisible column of a fixed name.

Invariant: like the server, we recognize it by its form; nothing else distinguishes it from a user's
column.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server, Table
from connectors.mysql.server_version import since

_NAME = "my_row_id"


def has_invisible_key(table: Table, server: Server) -> bool:
    """Whether a table's first column is such a key."""
    first = table.columns[0]
    return (
        first.name.lower() == _NAME
        and first.type == "bigint unsigned"
        and first.invisible
        and not first.nullable
        and table.primary_key == (first.name,)
        and since(server, mysql=(8, 0, 30), mariadb=None)
    )
