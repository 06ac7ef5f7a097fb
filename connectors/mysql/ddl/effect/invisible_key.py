"""The primary key that MySQL gives a table without one, if it is told to: an invisible column of a fixed name.

The law: the server knows it by its form, and so do we; nothing else tells it from a column that a user made.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server, Table
from connectors.mysql.ddl.server_version import since

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
