"""What a statement says, as values: nothing of it is applied yet, and no table is looked up.

The law: a value holds the statement's own words; what they mean for a table depends on the table, and that is
``catalog``'s to find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from connectors.mysql.ddl.grammar.reader import TableRef
from connectors.mysql.ddl.type_spec import TypeSpec

FIRST = ""
"""Instead of the column to stand behind: none."""

IndexKind = Literal["PRIMARY", "UNIQUE", "KEY", "FULLTEXT", "SPATIAL", "VECTOR", "FOREIGN"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What a column definition says behind the type."""

    nullable: bool | None = None
    """None: it says nothing."""
    generated: Literal["virtual", "stored"] | None = None
    expression: str = ""
    """Of a generated column; with its parentheses."""
    default: str | None = None
    on_update: str | None = None
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    comment: str | None = None
    invisible: bool = False
    others: str = ""
    """What rebuilds it beside these."""
    references: bool = False
    row_period: Literal["start", "end"] | None = None
    """MariaDB's GENERATED ALWAYS AS ROW START or END."""
    versioned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """A column as a statement defines it."""

    name: str
    type: TypeSpec
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a key: a column, its beginning, or an expression."""

    column: str = ""
    length: int | None = None
    expression: str = ""
    descending: bool = False
    without_overlaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """A key as a statement defines it; of a foreign key, the one that it needs."""

    kind: IndexKind
    name: str | None = None
    parts: tuple[Part, ...]
    if_not_exists: bool = False
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charset:
    """A character set and a collation, each as far as it is said."""

    charset: str | None = None
    collation: str | None = None
    collation_first: bool = False
    """COLLATE stands before CHARACTER SET."""

    def __bool__(self) -> bool:
        return self.charset is not None or self.collation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What stands behind a table's columns."""

    charset: Charset = Charset()
    texts: tuple[tuple[str, str], ...] = ()
    """Names and values of those that rebuild it."""
    names: tuple[str, ...] = ()
    """All of them, in upper case."""
    versioned: bool = False
    """MariaDB's WITH SYSTEM VERSIONING."""


# --- what ALTER TABLE does --------------------------------------------------------------------------


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
    columns: tuple[str, str]


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


# --- statements -------------------------------------------------------------------------------------


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
    periods: tuple[tuple[str, str], ...] = ()
    options: TableOptions = TableOptions()
    like: TableRef | None = None
    select: str | None = None
    """The query that it takes its rows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE, CREATE INDEX and DROP INDEX."""

    type: str
    name: TableRef
    actions: tuple[Action, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTables:
    """RENAME TABLE; one after the other."""

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
    charset: Charset = Charset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """ALTER DATABASE; without a name, the session's."""

    type: ClassVar[str] = "ALTER DATABASE"
    name: str | None
    charset: Charset = Charset()
    to: str | None = None
    """Its new name, of ``UPGRADE DATA DIRECTORY NAME``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE."""

    type: ClassVar[str] = "DROP DATABASE"
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTable:
    """A statement that changes no table: of a view, a routine, a user; or no DDL at all."""

    type: str
    """Its first words."""
    made: tuple[TableRef, ...] = ()
    """Views and sequences that exist from now on."""


Statement = (
    CreateTable
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
    """What an ALTER does, action by action; empty for other statements."""
    if isinstance(statement, AlterTable):
        return tuple(action.kind for action in statement.actions)
    return ()
