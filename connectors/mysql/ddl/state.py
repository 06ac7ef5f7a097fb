"""The state at one binlog position: tables, databases, temporary tables, and view names.

Invariant: names are compared as the server compares them, and kept in their original spelling.
"""

from __future__ import annotations

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Database, Server, Table, TableName

TemporaryName = tuple[int, TableName]
"""A connection, and the name of its temporary table."""


class State:
    """The whole state, which can be read and replaced."""

    __slots__ = ("databases", "others", "server", "tables", "temporary")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.tables: dict[TableName, tuple[TableName, Table]] = {}
        self.databases: dict[str, tuple[str, Database]] = {}
        self.temporary: dict[TemporaryName, Table | None] = {}
        """None: it exists, and its columns are unknown."""
        self.others: frozenset[TableName] = frozenset()
        """Views."""

    def copy(self) -> State:
        """Return an independent copy."""
        new = State(self.server)
        new.tables = self.tables.copy()
        new.databases = self.databases.copy()
        new.temporary = self.temporary.copy()
        new.others = self.others
        return new

    def folded(self, name: str) -> str:
        """A name in the form by which the server compares it."""
        return lowered(name) if self.server.lower_case_table_names else name

    def key(self, name: TableName) -> TableName:
        """A table's name in the form by which the server compares it."""
        if not self.server.lower_case_table_names:
            return name
        return lowered(name[0]), lowered(name[1])

    def stored(self, name: str) -> str:
        """A new name in the form in which the server stores it."""
        return lowered(name) if self.server.lower_case_table_names == 1 else name
