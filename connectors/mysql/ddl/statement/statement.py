"""A statement as a value: nothing of it is applied yet, and no table is looked up.

Invariant: a value holds the statement's own words; ``resolve`` determines their meaning for a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from connectors.mysql.ddl.definition import TableRef
from connectors.mysql.ddl.statement.alter_actions import (
    Action,
    NoColumnWork,
    PartitionToTable,
    RenameTo,
    TableToPartition,
)
from connectors.mysql.ddl.statement.column_spec import (
    NO_CHARSET,
    NO_OPTIONS,
    Charset,
    ColumnSpec,
    IndexSpec,
    Period,
    TableOptions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE."""

    type: ClassVar[str] = "CREATE TABLE"
    name: TableRef
    temporary: bool = False
    or_replace: bool = False
    if_not_exists: bool = False
    columns: tuple[ColumnSpec, ...] = ()
    indexes: tuple[IndexSpec, ...] = ()
    periods: tuple[Period, ...] = ()
    options: TableOptions = NO_OPTIONS
    like: TableRef | None = None
    select: str | None = None
    """The query that its rows come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence(CreateTable):
    """CREATE SEQUENCE: a table whose columns the server defines."""

    type: ClassVar[str] = "CREATE SEQUENCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSequence:
    """ALTER SEQUENCE that changes the type of its numbers."""

    type: ClassVar[str] = "ALTER SEQUENCE"
    name: TableRef
    columns: tuple[ColumnSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE, CREATE INDEX and DROP INDEX."""

    type: str
    name: TableRef
    actions: tuple[Action, ...]
    if_exists: bool = False
    ignore: bool = False
    """Whether rows that a unique key does not allow are removed, in MariaDB and in MySQL before 5.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTables:
    """RENAME TABLE; the renames apply in order."""

    type: ClassVar[str] = "RENAME TABLE"
    pairs: tuple[tuple[TableRef, TableRef], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTables:
    """DROP TABLE."""

    type: ClassVar[str] = "DROP TABLE"
    names: tuple[TableRef, ...]
    temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSequences(DropTables):
    """DROP SEQUENCE."""

    type: ClassVar[str] = "DROP SEQUENCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """TRUNCATE TABLE."""

    type: ClassVar[str] = "TRUNCATE TABLE"
    name: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE."""

    type: ClassVar[str] = "CREATE DATABASE"
    name: str
    or_replace: bool = False
    if_not_exists: bool = False
    charset: Charset = NO_CHARSET


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """ALTER DATABASE; without a name, of the session's database."""

    type: ClassVar[str] = "ALTER DATABASE"
    name: str | None
    charset: Charset = NO_CHARSET
    to: str | None = None
    """Its new name, for ``UPGRADE DATA DIRECTORY NAME``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE."""

    type: ClassVar[str] = "DROP DATABASE"
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTable:
    """A statement that changes no table: for a view, a routine, a user; or no DDL at all."""

    type: str
    """Its first words."""
    made: tuple[TableRef, ...] = ()
    """Created views."""
    if_not_exists: bool = False
    """Whether a view is not created if a table has its name."""
    dropped: tuple[TableRef, ...] = ()
    """Dropped views."""


Statement = (
    CreateTable
    | AlterSequence
    | AlterTable
    | RenameTables
    | DropTables
    | TruncateTable
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | NoTable
)


def tables_of(statement: Statement) -> Iterator[TableRef]:
    """The tables that a statement names as changed."""
    if isinstance(statement, RenameTables):
        for pair in statement.pairs:
            yield from pair
    elif isinstance(statement, DropTables):
        yield from statement.names
    elif isinstance(statement, CreateTable | AlterTable | TruncateTable):
        yield statement.name
        if isinstance(statement, AlterTable):
            for action in statement.actions:
                if isinstance(action, RenameTo):
                    yield action.to
                elif isinstance(action, NoColumnWork):
                    yield from action.tables
                elif isinstance(action, PartitionToTable | TableToPartition):
                    yield action.table


def actions_of(statement: Statement) -> tuple[str, ...]:
    """The actions of an ALTER; empty for other statements."""
    if isinstance(statement, AlterTable):
        return tuple(action.kind for action in statement.actions)
    return ()
