"""The effect of each statement on the known tables.

Invariant: a connection's temporary table hides the real table of that name; changes to the temporary
table are invisible to other connections.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.ddl.resolve.alter import altered_table
from connectors.mysql.ddl.resolve.charset import Defaults
from connectors.mysql.ddl.resolve.columns import made
from connectors.mysql.ddl.resolve.create import chosen, created
from connectors.mysql.ddl.resolve.draft import Draft
from connectors.mysql.ddl.statement import (
    AlterDatabase,
    AlterSequence,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTables,
    NoColumnWork,
    NoTable,
    PartitionToTable,
    RenameTables,
    RenameTo,
    Statement,
    TableToPartition,
    TruncateTable,
)
from connectors.mysql.types.type_spec import Refused


@singledispatch
def apply(statement: Statement, _draft: Draft) -> None:
    """Compute a statement's effect; raise Refused."""
    raise AssertionError(f"no rule for {type(statement).__name__}")


@apply.register
def _no_table(statement: NoTable, draft: Draft) -> None:
    has_database = bool(draft.terms.session.database)
    for ref in statement.made:
        if ref[0] or has_database:
            _make_view(draft.name(ref), draft, if_not_exists=statement.if_not_exists)
    for ref in statement.dropped:
        if ref[0] or has_database:
            draft.remove_other(draft.name(ref))


def _make_view(name: TableName, draft: Draft, *, if_not_exists: bool) -> None:
    if draft.table(name) is not None:
        if if_not_exists or not draft.logged:
            return
        # The server accepted the statement, so no such table exists: what is known was an older view.
        draft.change(name, None)
    draft.add_other(name)


@apply.register
def _truncate(statement: TruncateTable, draft: Draft) -> None:
    pass


# --- CREATE TABLE -----------------------------------------------------------------------------------


@apply.register
def _create(statement: CreateTable, draft: Draft) -> None:
    name = draft.name(statement.name)
    if statement.temporary:
        _create_temporary(statement, name, draft)
        return
    there = draft.table(name)
    is_there = there is not None or draft.is_other(name)
    if is_there and statement.if_not_exists and not statement.or_replace:
        return
    if there is not None and not statement.or_replace and not draft.logged:
        raise Refused(f"there is a table {name[1]} already")
    new = _new_table(statement, name, draft)
    if statement.or_replace:
        draft.change(name, None)
    draft.make(name, new)


def _create_temporary(statement: CreateTable, name: TableName, draft: Draft) -> None:
    if draft.is_temporary(name) and statement.if_not_exists:
        return
    try:
        table = _new_table(statement, name, draft)
    except ValueError:
        table = None  # invisible to other connections
    draft.set_temporary(name, table)


def _new_table(statement: CreateTable, name: TableName, draft: Draft) -> Table:
    if statement.like is not None:
        return _pattern(draft.name(statement.like), draft)
    if statement.has_query:
        raise Refused(
            "its columns are those of a query, which only the server knows; a binlog of rows names them"
        )
    return created(statement, draft.defaults(name[0]), draft.terms)


def _pattern(name: TableName, draft: Draft) -> Table:
    """The table after LIKE in CREATE TABLE."""
    table = draft.visible(name)
    if table is None:
        raise Refused(f"the table {name[0]}.{name[1]} that it is created like is not known")
    return table


# --- ALTER and RENAME TABLE -------------------------------------------------------------------------


@apply.register
def _alter_sequence(statement: AlterSequence, draft: Draft) -> None:
    name = draft.name(statement.name)
    table = draft.table(name)
    if table is not None and not draft.is_temporary(name):
        columns = [made(spec, draft.defaults(name[0]), draft.terms) for spec in statement.columns]
        new = replace(table, columns=tuple(columns))
        draft.change(name, table if new == table else new)


@apply.register
def _alter(statement: AlterTable, draft: Draft) -> None:
    name = draft.name(statement.name)
    renames = [action.to for action in statement.actions if isinstance(action, RenameTo)]
    to = renames[-1] if renames else None
    if draft.is_temporary(name):
        _alter_temporary(statement, name, draft)
        return
    table = draft.table(name)
    if table is None:
        if draft.is_other(name) or statement.if_exists or _changes_no_column(statement):
            return
        raise Refused(f"the table {name[0]}.{name[1]} is not known")
    new = altered_table(table, statement.actions, _defaults(name, draft), draft.terms)
    if to is not None and draft.name(to) != draft.written(name):
        _rename_one(draft, name, draft.name(to), new)
    else:
        draft.change(name, new)
    for action in statement.actions:
        if isinstance(action, PartitionToTable):
            draft.make(draft.name(action.table), new)
        elif isinstance(action, TableToPartition):
            draft.change(draft.name(action.table), None)


def _changes_no_column(statement: AlterTable) -> bool:
    """Whether a statement only works on partitions or the like, which servers also log for missing tables."""
    return all(isinstance(action, NoColumnWork) for action in statement.actions)


def _defaults(name: TableName, draft: Draft) -> Defaults:
    return Defaults(database=draft.defaults(name[0]), selected=draft.selected_defaults())


def _alter_temporary(statement: AlterTable, name: TableName, draft: Draft) -> None:
    table = draft.temporary(name)
    if table is not None:
        try:
            defaults = _defaults(name, draft)
            table = altered_table(table, statement.actions, defaults, draft.terms)
        except ValueError:
            table = None
    for action in statement.actions:
        if isinstance(action, RenameTo):
            draft.drop_temporary(name)
            name = draft.name(action.to)
    draft.set_temporary(name, table)


@apply.register
def _rename(statement: RenameTables, draft: Draft) -> None:
    for old, new in statement.pairs:
        name, to = draft.name(old), draft.name(new)
        table = draft.table(name)
        if table is not None:
            _rename_one(draft, name, to, table)
        elif draft.is_other(name):
            draft.remove_other(name)
            draft.add_other(to)
        elif not statement.if_exists:
            raise Refused(f"the table {name[0]}.{name[1]} is not known")


def _rename_one(draft: Draft, name: TableName, to: TableName, table: Table) -> None:
    if draft.table(to) is not None and draft.written(to) != draft.written(name):
        if not draft.logged:
            raise Refused(f"there is a table {to[1]} already")
        draft.change(to, None)
    draft.rename(name, to, table)


# --- DROP TABLE -------------------------------------------------------------------------------------


@apply.register
def _drop(statement: DropTables, draft: Draft) -> None:
    for ref in statement.names:
        name = draft.name(ref)
        if draft.is_temporary(name):
            draft.drop_temporary(name)
        elif statement.temporary:
            continue
        elif draft.table(name) is not None:
            draft.change(name, None)
        elif not statement.if_exists and not draft.logged:
            raise Refused(f"the table {name[0]}.{name[1]} is not known")


# --- databases --------------------------------------------------------------------------------------


@apply.register
def _create_database(statement: CreateDatabase, draft: Draft) -> None:
    there = draft.database(statement.name)
    if there is not None and statement.if_not_exists and not statement.or_replace:
        return
    if there is not None and not statement.or_replace and not draft.logged:
        raise Refused(f"there is a database {statement.name} already")
    if statement.or_replace:
        _drop_all(statement.name, draft)
    new = chosen(statement.charset, draft.server_defaults(), draft.terms)
    draft.change_database(statement.name, new)


@apply.register
def _alter_database(statement: AlterDatabase, draft: Draft) -> None:
    name = statement.name or draft.terms.session.database
    if not name:
        raise Refused("no database is selected")
    if statement.to is not None:
        _move_all(name, statement.to, draft)
        return
    current = draft.database(name)
    if statement.charset:
        current = current or draft.server_defaults()
        new = chosen(statement.charset, draft.server_defaults(), draft.terms, current)
        draft.change_database(name, new)


@apply.register
def _drop_database(statement: DropDatabase, draft: Draft) -> None:
    if (
        draft.database(statement.name) is None
        and not draft.tables_in(statement.name)
        and not statement.if_exists
        and not draft.logged
    ):
        raise Refused(f"the database {statement.name} is not known")
    _drop_all(statement.name, draft)


def _drop_all(name: str, draft: Draft) -> None:
    for table in draft.tables_in(name):
        draft.change(table, None)
    draft.change_database(name, None)


def _move_all(name: str, to: str, draft: Draft) -> None:
    for table in draft.tables_in(name):
        definition = draft.table(table)
        assert definition is not None
        draft.rename(table, (to, table[1]), definition)
    draft.change_database(to, draft.defaults(name))
    draft.change_database(name, None)
