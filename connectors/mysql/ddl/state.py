"""What is there at one place of the binlog: tables, databases, temporary tables, and names that are no tables.

The law: names are compared as the server compares them, and kept as they were written.
"""

from __future__ import annotations

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Database, Server, Table, TableName

TemporaryName = tuple[int, TableName]
"""A connection, and the name that a temporary table has there."""


class State:
    """All of it, to be read and replaced."""

    __slots__ = ("databases", "others", "server", "tables", "temporary")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.tables: dict[TableName, tuple[TableName, Table]] = {}
        self.databases: dict[str, tuple[str, Database]] = {}
        self.temporary: dict[TemporaryName, Table | None] = {}
        """None: it is there, and its columns are not known."""
        self.others: frozenset[TableName] = frozenset()
        """Views."""

    def copy(self) -> State:
        """Another state of the same content."""
        new = State(self.server)
        new.tables = self.tables.copy()
        new.databases = self.databases.copy()
        new.temporary = self.temporary.copy()
        new.others = self.others
        return new

    def folded(self, name: str) -> str:
        """A name as the server compares it."""
        return lowered(name) if self.server.lower_case_table_names else name

    def key(self, name: TableName) -> TableName:
        """A table's name as the server compares it."""
        if not self.server.lower_case_table_names:
            return name
        return lowered(name[0]), lowered(name[1])

    def stored(self, name: str) -> str:
        """A name as the server stores what is given that name now."""
        return lowered(name) if self.server.lower_case_table_names == 1 else name
