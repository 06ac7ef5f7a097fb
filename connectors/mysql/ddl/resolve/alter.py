"""The effect of ALTER TABLE on a table.

Invariant: the server's order applies, not the statement's. First each existing column is dropped,
changed, renamed or kept, in its position; then, in the statement's order, new columns are inserted
and others moved, by their current names; keys follow their columns. An untouched column remains the
same object. In MariaDB, ALTER and a later MODIFY may name a column that the same statement adds.
Source: ``mysql_prepare_alter_table`` in MySQL's ``sql_table.cc``.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Database, Index, Server, Table, with_hidden_last
from connectors.mysql.ddl.grammar.keys import of_column
from connectors.mysql.ddl.resolve import charset, keys
from connectors.mysql.ddl.resolve.charset import Defaults
from connectors.mysql.ddl.resolve.columns import (
    Terms,
    added,
    altered,
    kept,
    made,
    numbered,
    same,
)
from connectors.mysql.ddl.resolve.create import keyed, unique, with_period
from connectors.mysql.ddl.resolve.options import merged
from connectors.mysql.ddl.statement import (
    FIRST,
    Action,
    AddColumn,
    AddIndex,
    AddPeriod,
    AlterColumn,
    ChangeColumn,
    ColumnSpec,
    DropColumn,
    DropIndex,
    IndexSpec,
    RenameColumn,
    RenameIndex,
    SetOptions,
    SystemVersioning,
)
from connectors.mysql.server_version import since
from connectors.mysql.types.type_spec import Refused


def altered_table(
    table: Table, actions: tuple[Action, ...], defaults: Defaults, terms: Terms
) -> Table:
    """The table after an ALTER."""
    return _Alteration(table, actions, defaults, terms).result()


class _Alteration:
    """One ALTER TABLE during the computation of its effect."""

    def __init__(
        self, table: Table, actions: tuple[Action, ...], defaults: Defaults, terms: Terms
    ) -> None:
        self._table = table
        self._actions = actions
        self._terms = terms
        current = Database(charset=table.charset, collation=table.collation)
        self._defaults = charset.after(actions, current, defaults, terms)
        self._target = charset.target(actions, current, defaults, terms)
        """The character set that columns are converted to."""
        self._converted: dict[int, Column] = {}
        """Columns, by identity, that need no conversion: they were defined with the target's character set."""
        self._columns: list[Column] = []
        self._was: dict[str, str] = {}
        """Old names of renamed columns, by their new names."""
        self._changed: set[str] = set()
        """Names of redefined columns."""
        self._before: dict[str, Column] = {}
        """Kept columns as they were, by their new names."""
        self._new: set[str] = set()
        """Names of new columns."""
        self._indexes: list[IndexSpec] = []

    def result(self) -> Table:
        """The resulting table."""
        self._keep_columns()
        self._insert_columns()
        self._move_invisible_key()
        if self._terms.server.mariadb:
            self._hide_period()
        self._convert()
        for action in self._actions:
            if isinstance(action, AddPeriod):
                self._columns = with_period(self._columns, action.period)
        unique(self._columns)
        indexes = keys.with_geometries(self._new_indexes(), self._columns, self._terms.server)
        options = [action.options for action in self._actions if isinstance(action, SetOptions)]
        return Table(
            columns=tuple(map(self._traced, keyed(self._columns, indexes))),
            indexes=indexes,
            charset=self._defaults.charset,
            collation=self._defaults.collation,
            options=merged(self._table.options, options, self._versioned()),
        )

    def _versioned(self) -> bool | None:
        """Whether MariaDB keeps the table's history from now on; None: unchanged."""
        added = [one.added for one in self._actions if isinstance(one, SystemVersioning)]
        return added[-1] if added else None

    # --- columns ------------------------------------------------------------------------------------

    def _keep_columns(self) -> None:
        """Drop, change, rename or keep each existing column."""
        by_name: dict[str, list[Action]] = {}
        for action in self._actions:
            if isinstance(action, ChangeColumn | DropColumn | RenameColumn | AlterColumn):
                self._note(action, by_name)
        for column in self._table.columns:
            after: Column | None = column
            for action in by_name.get(lowered(column.name), ()):
                after = self._after(action, after)
            if after is None:
                continue
            if after.name != column.name:
                self._was[lowered(after.name)] = lowered(column.name)
            self._before[lowered(after.name)] = column
            self._columns.append(after)

    def _note(
        self,
        action: ChangeColumn | DropColumn | RenameColumn | AlterColumn,
        by_name: dict[str, list[Action]],
    ) -> None:
        if numbered(self._table.columns, action.name) is not None:
            by_name.setdefault(lowered(action.name), []).append(action)
        elif not action.if_exists and not self._is_of_new(action):
            raise Refused(f"there is no column {action.name}")

    def _is_of_new(self, action: ChangeColumn | DropColumn | RenameColumn | AlterColumn) -> bool:
        """Whether an action is for a column that the same statement adds, which MariaDB allows."""
        if isinstance(action, DropColumn | RenameColumn) or not self._terms.server.mariadb:
            return False
        if isinstance(action, ChangeColumn) and not same(action.name, action.spec.name):
            return False
        return any(
            isinstance(one, AddColumn) and same(one.spec.name, action.name) for one in self._actions
        )

    def _after(self, action: Action, column: Column | None) -> Column | None:
        if column is None or isinstance(action, DropColumn):
            return None
        if isinstance(action, ChangeColumn):
            new = self._remade(column, action.spec)
            self._changed.add(lowered(new.name))
            self._indexes += of_column(action.spec, self._terms.server)
            return new
        if isinstance(action, RenameColumn):
            return replace(column, name=action.to)
        assert isinstance(action, AlterColumn)
        return altered(column, action)

    def _made(self, spec: ColumnSpec) -> Column:
        """A new column; CONVERT TO takes precedence over its own character set."""
        column = made(spec, self._defaults, self._terms)
        if self._target is None or column.charset is None or spec.type.name.startswith("n"):
            return column
        kind = charset.converting(spec, self._target, self._terms.server)
        return self._needs_no_conversion(made(kind, self._target, self._terms))

    def _remade(self, old: Column, spec: ColumnSpec) -> Column:
        """A column with a new definition."""
        new = self._made(spec)
        if self._target is None or not since(self._terms.server, mysql=(8, 0, 0), mariadb=None):
            return new
        sized = charset.resized(spec, old, new, self._target)
        return self._needs_no_conversion(sized) if id(new) in self._converted else sized

    def _needs_no_conversion(self, column: Column) -> Column:
        self._converted[id(column)] = column
        return column

    def _insert_columns(self) -> None:
        """Insert new columns and move others, in the statement's order."""
        for action in self._actions:
            if isinstance(action, AddColumn):
                self._add(action)
            elif isinstance(action, ChangeColumn):
                self._change_new(action)
                if action.after is not None:
                    self._move(action, action.after)
            elif isinstance(action, AddIndex):
                self._indexes.append(action.spec)

    def _add(self, action: AddColumn) -> None:
        name = lowered(action.spec.name)
        # A column that the same statement drops or renames counts too.
        if (
            action.if_not_exists
            and numbered((*self._table.columns, *self._columns), name) is not None
        ):
            return
        column = self._with_alters(self._made(action.spec))
        self._indexes += of_column(action.spec, self._terms.server)
        self._new.add(name)
        index = len(self._columns) if action.after is None else self._index_after(action.after)
        self._columns.insert(index, column)

    def _with_alters(self, column: Column) -> Column:
        """A new column after the same statement's ALTER COLUMN of it, which MariaDB allows."""
        dropped = [one.name for one in self._actions if isinstance(one, DropColumn)]
        is_there = numbered(self._table.columns, column.name) is not None
        if not self._terms.server.mariadb or (
            is_there and not any(same(one, column.name) for one in dropped)
        ):
            return column
        alters = [
            one
            for one in self._actions
            if isinstance(one, AlterColumn) and same(one.name, column.name) and not one.if_exists
        ]
        if len(alters) > 1:
            raise Refused(f"there is no column {column.name} for a second ALTER")
        for one in alters:
            is_converted = id(column) in self._converted
            column = altered(column, one)
            if is_converted:
                self._needs_no_conversion(column)
        return column

    def _change_new(self, action: ChangeColumn) -> None:
        """Redefine a column that the statement has added."""
        if action.if_exists or numbered(self._table.columns, action.name) is not None:
            return
        if lowered(action.name) not in self._new:
            raise Refused(f"there is no column {action.name}")
        self._columns[numbered(self._columns, action.name) or 0] = self._made(action.spec)
        self._indexes += of_column(action.spec, self._terms.server)

    def _traced(self, column: Column) -> Column:
        """A column with its identity and its value in the table's rows, if the statement changes it."""
        name = lowered(column.name)
        if name in self._new:
            return added(column, self._terms)
        before = self._before.get(name)
        return column if before is column or before is None else kept(before, column, self._terms)

    def _move_invisible_key(self) -> None:
        """Move the primary key that the server generated back to the first position."""
        if not has_invisible_key(self._table, self._terms.server):
            return
        index = numbered(self._columns, self._table.columns[0].name)
        if index:
            self._columns.insert(0, self._columns.pop(index))

    def _hide_period(self) -> None:
        self._columns = with_hidden_last(self._columns, versioned=self._versioned())

    def _move(self, action: ChangeColumn, after: str) -> None:
        index = numbered(self._columns, action.spec.name)
        if index is not None:
            column = self._columns.pop(index)
            self._columns.insert(self._index_after(after), column)

    def _index_after(self, name: str) -> int:
        if name == FIRST:
            return 0
        index = numbered(self._columns, name)
        if index is None:
            raise Refused(f"there is no column {name} to add a column after")
        return index + 1

    def _convert(self) -> None:
        """Apply CONVERT TO, also to columns that this statement creates."""
        to = self._target
        if to is None:
            return
        server, session = self._terms.server, self._terms.session
        self._columns = [
            column
            if id(column) in self._converted
            else charset.converted(column, to, server=server, session=session)
            for column in self._columns
        ]

    # --- keys ---------------------------------------------------------------------------------------

    def _new_indexes(self) -> tuple[Index, ...]:
        kept = list(self._table.indexes)
        for action in self._actions:
            if isinstance(action, DropIndex):
                kept = _without(kept, action)
        renamed = [action for action in self._actions if isinstance(action, RenameIndex)]
        kept = [_renamed(index, renamed) for index in kept]
        moved = keys.Moved(
            before=self._table.columns,
            after=self._columns,
            was=self._was,
            changed=self._changed,
            new=self._new,
            mariadb=self._terms.server.mariadb,
        )
        kept = keys.with_columns(kept, moved)
        if not self._indexes:
            return self._table.indexes if kept == list(self._table.indexes) else tuple(kept)
        periods = [action.period for action in self._actions if isinstance(action, AddPeriod)]
        new = [spec for spec in self._indexes if not keys.is_there(spec, self._table.indexes)]
        return keys.added(kept, keys.with_periods(new, periods), self._columns)


def _without(indexes: list[Index], action: DropIndex) -> list[Index]:
    """The keys without the dropped key; an unknown key is refused only if it is the primary key."""
    found = next((index for index in indexes if same(index.name, action.name)), None)
    if found is None:
        if action.kind == "DROP PRIMARY KEY" and not action.if_exists:
            raise Refused("there is no primary key")
        return indexes
    if action.constraint and not found.unique:
        return indexes
    return [index for index in indexes if index is not found]


def _renamed(index: Index, actions: list[RenameIndex]) -> Index:
    to = next((action.to for action in actions if same(action.name, index.name)), None)
    return index if to is None else replace(index, name=to)


_NAME = "my_row_id"


def has_invisible_key(table: Table, server: Server) -> bool:
    """Return whether a table's first column is a primary key that the server generated.

    Invariant: the column is recognized by its form, as on the server; nothing else distinguishes it from a
    user's column.
    """
    first = table.columns[0]
    return (
        first.name.lower() == _NAME
        and first.type == "bigint unsigned"
        and first.invisible
        and not first.nullable
        and table.primary_key == (first.name,)
        and since(server, mysql=(8, 0, 30), mariadb=None)
    )
