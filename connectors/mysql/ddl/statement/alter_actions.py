"""What ALTER TABLE says, action by action, as values.

The law: each has a ``kind``, as people are told of it: ``ADD COLUMN``, ``DROP INDEX``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from connectors.mysql.ddl.statement.column_spec import (
    Charset,
    ColumnSpec,
    IndexSpec,
    Period,
    TableOptions,
)
from connectors.mysql.ddl.statement.table_ref import TableRef

FIRST = ""
"""Instead of the column to stand behind: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """ADD COLUMN."""

    kind: ClassVar[str] = "ADD COLUMN"
    spec: ColumnSpec
    behind: str | None = None
    """The column to stand behind, or FIRST; None: at the end."""
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """CHANGE COLUMN, and MODIFY COLUMN where the name stays."""

    kind: str
    name: str
    spec: ColumnSpec
    behind: str | None = None
    """None: where it is."""
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
    """ALTER COLUMN: another default, or another visibility."""

    kind: ClassVar[str] = "ALTER COLUMN"
    name: str
    default: str | None = None
    """None: dropped."""
    invisible: bool | None = None
    """None: as it was, and this is about the default."""
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
    """DROP CONSTRAINT: it may be no index at all."""


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
    """What changes neither columns nor keys, such as work on partitions."""

    kind: str
    tables: tuple[TableRef, ...] = ()
    """Others that it touches."""


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
    """MariaDB's CONVERT PARTITION … TO TABLE: a table of the same columns comes to be."""

    kind: ClassVar[str] = "CONVERT PARTITION"
    table: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToPartition:
    """MariaDB's CONVERT TABLE … TO PARTITION: that table is gone."""

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
