"""All tables and databases of a server at one place of its binlog, and what each statement makes of them.

The law: a statement is applied whole or not at all; what is not understood raises DdlUnresolved with the tables
that it touches, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.definition import Change, Database, Server, Session, Table, TableName
from connectors.mysql.ddl.effect.draft import Draft
from connectors.mysql.ddl.effect.statements import apply
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from connectors.mysql.ddl.state import State


class Catalog(Mapping[TableName, Table]):
    """Tables by name, and databases.

    ``logged`` says that statements come from a binlog, which holds only what worked: a table that is made was
    not there before, whatever is known, and one that is dropped may be unknown. Else both are refused as a
    server would.
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
        """A table as it is from now on."""
        self._state.tables[self._state.key(name)] = (name, table)

    def remove(self, name: TableName) -> None:
        """A table that is gone."""
        self._state.tables.pop(self._state.key(name), None)

    @property
    def views(self) -> frozenset[TableName]:
        """The names of views, as the server compares them."""
        return self._state.others

    def put_view(self, name: TableName) -> None:
        """A view that is there."""
        self._state.others |= {self._state.key(name)}

    def put_database(self, name: str, database: Database) -> None:
        """A database as it is from now on."""
        self._state.databases[self._state.folded(name)] = (name, database)

    def remove_database(self, name: str) -> None:
        """A database that is gone; its tables are not looked at."""
        self._state.databases.pop(self._state.folded(name), None)

    def forget_temporary(self) -> None:
        """The server was started anew: no temporary table is left."""
        self._state.temporary.clear()

    def hides(self, name: TableName, thread: int) -> bool:
        """Whether a connection has a temporary table of that name, and so means that one."""
        return (thread, self._state.key(name)) in self._state.temporary

    def copy(self) -> Catalog:
        """Another catalog of the same tables, which goes its own way."""
        new = Catalog(self.server, logged=self.logged)
        new._state = self._state.copy()
        return new

    def apply(self, sql: str, session: Session) -> tuple[Change, ...]:
        """Parse a statement and apply it; see ``apply_parsed``."""
        return self.apply_parsed(parse_statement(sql, self.server, session))

    def apply_parsed(self, statement: ParsedStatement) -> tuple[Change, ...]:
        """What a statement does, in order; raise DdlUnresolved, with the tables it touches, and change nothing.

        A rename is two changes, under the old name and then the new one, also where names are swapped; a table
        that is made in another's place is first dropped.
        """
        if statement.tree is None:
            raise DdlUnresolved(statement.fault, tables=sorted(statement.tables))
        draft = Draft(self._state, statement.session, logged=self.logged)
        try:
            apply(statement.tree, draft)
        # As all refusals are; a query may be of more parts than can be gone into.
        except (ValueError, RecursionError) as fault:
            raise DdlUnresolved(str(fault), tables=sorted(statement.tables)) from None
        draft.commit()
        return tuple(draft.changes)
