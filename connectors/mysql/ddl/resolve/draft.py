"""The state at one binlog position, and a statement's changes to it while the statement's effect is computed.

Invariant: names are compared as the server compares them, and kept in their original spelling. The state does
not change before a draft's ``commit``; a statement's later parts see its earlier changes.
"""

from __future__ import annotations

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.collations import server_default
from connectors.mysql.ddl.definition import (
    Change,
    Database,
    DatabaseChange,
    Execution,
    Server,
    Session,
    Table,
    TableChange,
    TableName,
    TableRef,
)
from connectors.mysql.ddl.resolve.columns import Terms
from connectors.mysql.types.type_spec import Refused

TemporaryName = tuple[int, TableName]
"""A connection, and the name of its temporary table."""


class State:
    """Tables, databases, temporary tables, and names of views, which can be read and replaced."""

    __slots__ = ("databases", "others", "server", "tables", "temporary")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.tables: dict[TableName, tuple[TableName, Table]] = {}
        self.databases: dict[str, tuple[str, Database]] = {}
        self.temporary: dict[TemporaryName, Table | None] = {}
        """None: the table exists, but its columns are unknown."""
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


class Draft:
    """One statement's changes."""

    def __init__(
        self,
        state: State,
        session: Session,
        *,
        logged: bool,
        execution: Execution | None = None,
    ) -> None:
        self.terms = Terms(server=state.server, session=session, execution=execution)
        self.logged = logged
        self.changes: list[Change] = []
        self._state = state
        self._tables: dict[TableName, tuple[TableName, Table] | None] = {}
        self._databases: dict[str, tuple[str, Database] | None] = {}
        self._temporary: dict[TemporaryName, Table | None] = {}
        self._dropped_temporary: set[TemporaryName] = set()
        self._others = state.others

    # --- names --------------------------------------------------------------------------------------

    def name(self, ref: TableRef) -> TableName:
        """A table's full name; raise Refused if no database is selected."""
        database = ref[0] or self.terms.session.database
        if not database:
            raise Refused(f"no database is selected for {ref[1]}")
        return self._state.stored(database), self._state.stored(ref[1])

    def written(self, name: TableName) -> TableName:
        """The name in the table's own spelling."""
        found = self._found(name)
        return found[0] if found else name

    # --- tables -------------------------------------------------------------------------------------

    def _found(self, name: TableName) -> tuple[TableName, Table] | None:
        key = self._state.key(name)
        if key in self._tables:
            return self._tables[key]
        return self._state.tables.get(key)

    def table(self, name: TableName) -> Table | None:
        """A table that is not temporary."""
        found = self._found(name)
        return found[1] if found else None

    def change(self, name: TableName, new: Table | None) -> None:
        """Create, alter or drop a table."""
        old = self.table(name)
        if old != new or _origins(old) != _origins(new):
            self.changes.append(TableChange(name=self.written(name), old=old, new=new))
            self._set(name, new)

    def make(self, name: TableName, new: Table) -> None:
        """Create a table under a name that must be free."""
        self.changes.append(TableChange(name=name, old=None, new=new))
        self.remove_other(name)
        self._set(name, None)
        self._set(name, new)

    def rename(self, name: TableName, to: TableName, new: Table) -> None:
        """Rename a table, which may be altered at the same time."""
        old, written = self.table(name), self.written(name)
        self._set(name, None)
        self._set(to, new)
        self.changes.append(TableChange(name=written, old=old, new=None, renamed_to=to))
        self.changes.append(TableChange(name=to, old=None, new=new, renamed_from=written))

    def _set(self, name: TableName, new: Table | None) -> None:
        written = self.written(name)
        self._tables[self._state.key(name)] = None if new is None else (written, new)

    def tables_in(self, database: str) -> list[TableName]:
        """All tables of a database, in the order of their names."""
        wanted = self._state.folded(database)
        keys = {key for key in self._state.tables if key[0] == wanted}
        keys |= {key for key in self._tables if key[0] == wanted}
        found = (self._found(key) for key in keys)
        return sorted(entry[0] for entry in found if entry)

    # --- temporary tables ---------------------------------------------------------------------------

    def is_temporary(self, name: TableName) -> bool:
        """Whether this connection has a temporary table of that name."""
        key = (self.terms.session.thread, self._state.key(name))
        return key not in self._dropped_temporary and (
            key in self._temporary or key in self._state.temporary
        )

    def temporary(self, name: TableName) -> Table | None:
        """This connection's temporary table; None if its columns are unknown."""
        key = (self.terms.session.thread, self._state.key(name))
        return self._temporary[key] if key in self._temporary else self._state.temporary[key]

    def visible(self, name: TableName) -> Table | None:
        """The table that this connection finds under a name; None also if its columns are unknown."""
        return self.temporary(name) if self.is_temporary(name) else self.table(name)

    def set_temporary(self, name: TableName, table: Table | None) -> None:
        """Create or alter a temporary table."""
        key = (self.terms.session.thread, self._state.key(name))
        self._temporary[key] = table
        self._dropped_temporary.discard(key)

    def drop_temporary(self, name: TableName) -> None:
        """Drop a temporary table."""
        self._dropped_temporary.add((self.terms.session.thread, self._state.key(name)))

    # --- databases and views ------------------------------------------------------------------------

    def database(self, name: str) -> Database | None:
        """A database."""
        found = self._found_database(name)
        return found[1] if found else None

    def _found_database(self, name: str) -> tuple[str, Database] | None:
        key = self._state.folded(name)
        return self._databases[key] if key in self._databases else self._state.databases.get(key)

    def defaults(self, name: str) -> Database:
        """The defaults of a database's tables; for an unknown database, the defaults of a new database."""
        return self.database(name) or self.server_defaults()

    def selected_defaults(self) -> Database | None:
        """The defaults of the selected database; None if none is selected, or if it is not known."""
        selected = self.terms.session.database
        return self.database(selected) if selected else None

    def server_defaults(self) -> Database:
        """The defaults of a database created without options."""
        return server_default(self.terms.server, self.terms.session)

    def change_database(self, name: str, new: Database | None) -> None:
        """Create, alter or drop a database."""
        found = self._found_database(name)
        old = found[1] if found else None
        if old != new:
            written = found[0] if found else self._state.stored(name)
            self.changes.append(DatabaseChange(name=written, old=old, new=new))
            self._databases[self._state.folded(name)] = None if new is None else (written, new)
        if new is None:
            folded = self._state.folded(name)
            self._others = frozenset(other for other in self._others if other[0] != folded)

    def is_other(self, name: TableName) -> bool:
        """Whether a name is known to be a view's."""
        return self._state.key(name) in self._others

    def add_other(self, name: TableName) -> None:
        """Add a view."""
        self._others |= {self._state.key(name)}

    def remove_other(self, name: TableName) -> None:
        """Remove a view that was dropped or renamed."""
        self._others -= {self._state.key(name)}

    # --- the end ------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Apply the changes to the state."""
        state = self._state
        for key, entry in self._tables.items():
            if entry is None:
                state.tables.pop(key, None)
            else:
                state.tables[key] = entry
        for name, database in self._databases.items():
            if database is None:
                state.databases.pop(name, None)
            else:
                state.databases[name] = database
        state.temporary.update(self._temporary)
        for dropped in self._dropped_temporary:
            state.temporary.pop(dropped, None)
        state.others = self._others


def _origins(table: Table | None) -> tuple[str, ...]:
    """The identities of a table's columns, which differ if a statement replaced a column by an equal column."""
    return () if table is None else tuple(column.origin for column in table.columns)
