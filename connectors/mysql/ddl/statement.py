"""DDL statements as values: the syntax tree that the grammar builds and ``resolve`` reads.

Invariant: a value holds the statement's own words: nothing of it is applied yet, no table is looked up, and
their meaning for a table depends on the table. Each action of ALTER TABLE has a ``kind`` for display:
``ADD COLUMN``, ``DROP INDEX``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from connectors.mysql.ddl.definition import SpecialKind, TableRef
from connectors.mysql.types.type_spec import TypeSpec

IndexKind = Literal["PRIMARY", "UNIQUE", "KEY", "FOREIGN"] | SpecialKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of a column definition after the type."""

    nullable: bool | None = None
    """None if not specified."""
    generated: Literal["virtual", "stored"] | None = None
    expression: str = ""
    """The expression of a generated column, with its parentheses."""
    default: str | None = None
    on_update: str | None = None
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    comment: str | None = None
    invisible: bool = False
    others: str = ""
    """The rest of the column's definition."""
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
    """A key as a statement defines it; for a foreign key, the index that it needs."""

    kind: IndexKind
    name: str | None = None
    parts: tuple[Part, ...]
    if_not_exists: bool = False
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """MariaDB's period of time, from one column to another."""

    name: str
    begin: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charset:
    """A character set and a collation, each if specified."""

    charset: str | None = None
    collation: str | None = None
    collation_first: bool = False
    """Whether COLLATE precedes CHARACTER SET."""

    def __bool__(self) -> bool:
        return self.charset is not None or self.collation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The table options after the columns."""

    charset: Charset = Charset()
    texts: tuple[tuple[str, str], ...] = ()
    """Names and values of the options that are part of the table's definition."""
    names: tuple[str, ...] = ()
    """The names of all options, in upper case."""
    versioned: bool = False
    """MariaDB's WITH SYSTEM VERSIONING."""


NO_CHARSET = Charset()
NO_OPTIONS = TableOptions()


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
    has_query: bool = False
    """Whether its rows, and the columns that it does not define, come from a query."""


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
