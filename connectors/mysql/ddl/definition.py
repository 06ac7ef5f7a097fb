"""A table's definition: its columns and keys, and the properties that later statements depend on.

Invariant: definitions are values, which are compared by content. What does not change between two versions
of a table is the same object in both, so that a long history is small. MariaDB's WITH SYSTEM VERSIONING
alone adds implicit columns after all others, for the start and end of a row's validity, and they stay last.
A definition may lack them, because ``information_schema`` does not list them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

TableName = tuple[str, str]
"""Database and table."""

SpecialKind = Literal["FULLTEXT", "SPATIAL", "VECTOR"]
"""Kinds of keys that are not ordered by value."""
SPECIAL_KINDS: Mapping[str, SpecialKind] = {kind: kind for kind in get_args(SpecialKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, in the terms of ``information_schema.columns``."""

    name: str
    type: str
    """``column_type`` as the server prints it, for example ``decimal(12,2) unsigned``."""
    nullable: bool
    charset: str | None = None
    """For text only; None for bytes, whose character set is ``binary``."""
    collation: str | None = None
    generated: Literal["virtual", "stored"] | None = None
    invisible: bool = False
    definition: str = ""
    """The rest of its definition, as in CREATE TABLE after type, character set, collation and
    nullability: ``DEFAULT …``, ``GENERATED ALWAYS AS (…) STORED``, ``AUTO_INCREMENT``, ``COMMENT
    …``."""
    exact_type: str = ""
    """``type`` with the original labels of an ENUM or SET, if a label in ``type`` has a question mark.

    ``information_schema`` prints a question mark for each character outside the BMP. Empty if no statement
    is known."""
    by_rows: bool = False
    """Whether the column is known from rows alone.

    ``type`` then lacks what rows do not show: display width, ZEROFILL, and the names of MariaDB's types that
    are bytes in rows."""
    origin: str = field(default="", compare=False)
    """The column's identity through renames; empty if it is the column's current name.

    It is the column's first name, with the mark of the statement that added the column to a table with rows.
    Servers do not show it later."""
    initial: str = field(default="", compare=False)
    """JSON of the column's value in rows that are older than the statement that added the column.

    Empty if no such statement is known. See ``connectors.mysql.ddl.initial_value``."""

    def to_json(self) -> dict[str, object]:
        """Return what DDL records and commands report of a column."""
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "charset": self.charset,
            "collation": self.collation,
            "generated": self.generated,
            "invisible": self.invisible,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A key of a table, as far as it affects columns."""

    name: str
    """``PRIMARY`` for the primary key."""
    columns: tuple[str, ...]
    """In the key's order; an expression has the empty name."""
    unique: bool = False
    prefixed: bool = False
    """Whether the key covers only the beginning of a column, and so cannot identify a row."""
    parts: tuple[str, ...] = ()
    """The rest of each part's definition, such as ``(10)`` or `` DESC``, or the expression;
    empty if no part needs any."""
    kind: str = ""
    """One of ``SPECIAL_KINDS``, or empty."""
    options: str = ""
    """The rest of its definition, such as ``USING HASH``."""
    implicit: bool = field(default=False, compare=False)
    """Whether the server created it for a foreign key: any other key that begins with its
    columns replaces it. Servers do not show this later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table at one binlog position."""

    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str
    """For columns that are added without a character set."""
    collation: str
    options: str = ""
    """The rest of its definition, such as ``ENGINE=InnoDB``."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The primary key's columns in the key's order; empty without one."""
        return next((index.columns for index in self.indexes if index.name == "PRIMARY"), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The defaults that a database's tables inherit."""

    charset: str
    collation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server properties on which a statement's meaning depends, constant while a server runs."""

    version: tuple[int, int, int]
    """The version with which executable comments are compared, for example ``(9, 7, 4)``."""
    mariadb: bool = False
    lower_case_table_names: int = 0
    """0: names are case-sensitive; 1 and 2: names of databases and tables are compared case-insensitively."""
    system_time_zone: str = ""
    """As the server names it, such as ``UTC`` or ``CEST``; empty if the server was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session settings on which a statement's meaning depends, from its QUERY event."""

    database: str | None = None
    """The database of table names without a database."""
    sql_mode: frozenset[str] = frozenset()
    """Names such as ``ANSI_QUOTES`` and ``NO_BACKSLASH_ESCAPES``, in upper case."""
    server_collation: str | None = None
    """The default of a database that is created without a collation; None: the server version's own default."""
    utf8mb4_collation: str | None = None
    """``default_collation_for_utf8mb4``; None: the server version's own default."""
    charset_collations: tuple[tuple[str, str], ...] | None = None
    """MariaDB's ``character_set_collations``, as pairs; None: the server version's own default."""
    connection_collation: str | None = None
    """The collation of text literals in a query; None: the server version's own default of utf8mb4."""
    explicit_timestamps: bool | None = None
    """``explicit_defaults_for_timestamp``; None: the server version's own default."""
    thread: int = 0
    """The connection, to which temporary tables belong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution of a statement: what else determines the values that the statement gives to rows."""

    mark: str
    """Unique among the statements of the source: the GTID, or file and offset."""
    started_us: int | None = None
    """The statement's CURRENT_TIMESTAMP, in microseconds since 1970; None if not known."""
    time_zone: str | None = None
    """The session's time zone in the binlog, such as ``SYSTEM``; None if the statement did not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The effect of one statement on one table."""

    name: TableName
    """The old name, for a rename."""
    old: Table | None
    """None if the table was created."""
    new: Table | None
    """None if the table was dropped, and in the change under the old name of a rename."""
    renamed_to: TableName | None = None
    """The new name; the change under that name follows in the same list, with ``renamed_from``."""
    renamed_from: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseChange:
    """The effect of one statement on a database; changes that drop its tables precede this change."""

    name: str
    old: Database | None
    new: Database | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """A view that a statement created or dropped; while it exists no table can have its name."""

    name: TableName
    is_there: bool


Change = TableChange | DatabaseChange


TableRef = tuple[str | None, str]
"""A table as a statement names it: the database may be missing."""


_ROW = "GENERATED ALWAYS AS ROW "
_NAMES = ("row_start", "row_end")


def is_of_period(column: Column) -> bool:
    """Whether a column is the start or the end of a row's validity."""
    return column.definition.startswith(_ROW)


def is_hidden(column: Column) -> bool:
    """Whether the server added a column implicitly."""
    return is_of_period(column) and column.invisible and column.name in _NAMES


def with_hidden_last(columns: list[Column], *, versioned: bool | None) -> list[Column]:
    """Return the columns with the implicit columns last, or without them if versioning was dropped."""
    hidden = [column for column in columns if is_hidden(column)]
    if not hidden:
        return columns
    shown = [column for column in columns if not is_hidden(column)]
    return shown if versioned is False else [*shown, *hidden]
