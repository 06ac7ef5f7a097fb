"""Catalog: a server's tables and databases at one binlog position, and the effect of statements on them.

Invariant: a statement is applied whole or not at all. A statement that is not understood raises
DdlUnresolved with the tables that it touches, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import Change, Database, Server, Session, Table, TableName
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from connectors.mysql.ddl.resolve.draft import Draft, State
from connectors.mysql.ddl.resolve.statements import apply


class Catalog(Mapping[TableName, Table]):
    """Tables by name, and databases.

    With ``logged``, statements come from a binlog, which contains only successful statements: a created
    table did not exist before, whatever is known, and a dropped table may be unknown. Without ``logged``,
    both cases are refused, as by a server.
    """

    def __init__(self, server: Server, *, logged: bool = True) -> None:
        self.server = server
        self.logged = logged
        self._state = State(server)

    def __getitem__(self, name: TableName) -> Table:
        return self._state.tables[self._state.key(name)][1]

    def __iter__(self) -> Iterator[TableName]:
        return (name for name, _ in self._state.tables.values())

    def __len__(self) -> int:
        return len(self._state.tables)

    @property
    def databases(self) -> Mapping[str, Database]:
        """Databases by name."""
        return dict(self._state.databases.values())

    def put(self, name: TableName, table: Table) -> None:
        """Set a table's current definition."""
        self._state.tables[self._state.key(name)] = (name, table)

    def remove(self, name: TableName) -> None:
        """Remove a table."""
        self._state.tables.pop(self._state.key(name), None)

    @property
    def views(self) -> frozenset[TableName]:
        """The names of views, as the server compares them."""
        return self._state.others

    def put_view(self, name: TableName) -> None:
        """Add a view."""
        self._state.others |= {self._state.key(name)}

    def put_database(self, name: str, database: Database) -> None:
        """Set a database's current properties."""
        self._state.databases[self._state.folded(name)] = (name, database)

    def remove_database(self, name: str) -> None:
        """Remove a database; its tables are left unchanged."""
        self._state.databases.pop(self._state.folded(name), None)

    def hides(self, name: TableName, thread: int) -> bool:
        """Whether a connection has a temporary table of that name, which hides the real table."""
        return (thread, self._state.key(name)) in self._state.temporary

    def copy(self) -> Catalog:
        """Return an independent copy."""
        new = Catalog(self.server, logged=self.logged)
        new._state = self._state.copy()
        return new

    def apply(self, sql: str, session: Session) -> tuple[Change, ...]:
        """Parse a statement and apply it; see ``apply_parsed``."""
        return self.apply_parsed(parse_statement(sql, self.server, session))

    def apply_parsed(self, statement: ParsedStatement) -> tuple[Change, ...]:
        """Apply a statement and return its changes in order.

        On failure raise DdlUnresolved, with the tables that the statement touches, and change nothing. A
        rename is two changes, under the old name and then under the new name, even if names are swapped. A
        table that OR REPLACE or a rename replaces is dropped first.
        """
        if statement.tree is None:
            raise DdlUnresolved(statement.fault, tables=sorted(statement.tables))
        draft = Draft(
            self._state, statement.session, logged=self.logged, execution=statement.execution
        )
        try:
            apply(statement.tree, draft)
        # All refusals are ValueErrors; an expression may be nested too deeply to process.
        except (ValueError, RecursionError) as fault:
            raise DdlUnresolved(str(fault), tables=sorted(statement.tables)) from None
        draft.commit()
        return tuple(draft.changes)
