"""The actions of ALTER TABLE as values.

Invariant: each action has a ``kind`` for display: ``ADD COLUMN``, ``DROP INDEX``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from connectors.mysql.ddl.definition import TableRef
from connectors.mysql.ddl.statement.column_spec import (
    Charset,
    ColumnSpec,
    IndexSpec,
    Period,
    TableOptions,
)

FIRST = ""
"""The first position, given in place of a preceding column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """ADD COLUMN."""

    kind: ClassVar[str] = "ADD COLUMN"
    spec: ColumnSpec
    after: str | None = None
    """The preceding column, or FIRST; None: at the end."""
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """CHANGE COLUMN, and MODIFY COLUMN if the name is unchanged."""

    kind: str
    name: str
    spec: ColumnSpec
    after: str | None = None
    """The preceding column, or FIRST; None: the position is unchanged."""
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """DROP COLUMN."""

    kind: ClassVar[str] = "DROP COLUMN"
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """RENAME COLUMN."""

    kind: ClassVar[str] = "RENAME COLUMN"
    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumn:
    """ALTER COLUMN: a new default, or a new visibility."""

    kind: ClassVar[str] = "ALTER COLUMN"
    name: str
    default: str | None = None
    """None: the default is dropped."""
    invisible: bool | None = None
    """None: the visibility is unchanged, and the action sets or drops the default."""
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddIndex:
    """ADD INDEX, ADD PRIMARY KEY, ADD CONSTRAINT … UNIQUE, ADD FOREIGN KEY."""

    kind: str
    spec: IndexSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex:
    """DROP INDEX and DROP PRIMARY KEY."""

    kind: str
    name: str
    if_exists: bool = False
    constraint: bool = False
    """Whether it is DROP CONSTRAINT, whose name may belong to a constraint that is not an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameIndex:
    """RENAME INDEX."""

    kind: ClassVar[str] = "RENAME INDEX"
    name: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTo:
    """RENAME TO."""

    kind: ClassVar[str] = "RENAME TABLE"
    to: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertTo:
    """CONVERT TO CHARACTER SET."""

    kind: ClassVar[str] = "CONVERT TO CHARACTER SET"
    charset: Charset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    """Table options."""

    kind: ClassVar[str] = "TABLE OPTIONS"
    options: TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NoColumnWork:
    """An action that changes neither columns nor keys, such as work on partitions."""

    kind: str
    tables: tuple[TableRef, ...] = ()
    """Other tables that the action touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPeriod:
    """MariaDB's ADD PERIOD FOR name (start, end)."""

    kind: ClassVar[str] = "ADD PERIOD"
    period: Period


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemVersioning:
    """MariaDB's ADD and DROP SYSTEM VERSIONING."""

    kind: str
    added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToTable:
    """MariaDB's CONVERT PARTITION … TO TABLE: creates a table of the same columns."""

    kind: ClassVar[str] = "CONVERT PARTITION"
    table: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToPartition:
    """MariaDB's CONVERT TABLE … TO PARTITION: removes that table."""

    kind: ClassVar[str] = "CONVERT TABLE"
    table: TableRef


Action = (
    AddColumn
    | ChangeColumn
    | DropColumn
    | RenameColumn
    | AlterColumn
    | AddIndex
    | DropIndex
    | RenameIndex
    | RenameTo
    | ConvertTo
    | SetOptions
    | NoColumnWork
    | AddPeriod
    | SystemVersioning
    | PartitionToTable
    | TableToPartition
)
