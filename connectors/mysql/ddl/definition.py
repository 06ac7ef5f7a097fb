"""What is known of a table: its columns, its key, and what later statements take from it.

The law: these are values; equal tables are equal, and what does not change between two versions of a table
is the same object in both, so that a long history is small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

TableName = tuple[str, str]
"""Database and table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, in the words of ``information_schema.columns``."""

    name: str
    type: str
    """``column_type`` as the server prints it, for example ``decimal(12,2) unsigned``."""
    nullable: bool
    charset: str | None = None
    """Of text, else None; ``binary`` is none."""
    collation: str | None = None
    generated: Literal["virtual", "stored"] | None = None
    invisible: bool = False
    definition: str = ""
    """What else rebuilds it, as it would stand in CREATE TABLE behind type, character set and collation and
    nullability: ``DEFAULT …``, ``GENERATED ALWAYS AS (…) STORED``, ``AUTO_INCREMENT``, ``COMMENT …``."""
    exact_type: str = ""
    """``type`` with the labels of an ENUM or SET as its statement has them, where a label has a question mark:
    ``information_schema`` prints one for each character outside the BMP. Empty where no statement is known."""
    by_rows: bool = False
    """Whether rows alone showed it, so that ``type`` lacks what they do not show: display width, ZEROFILL, and
    the names of MariaDB's types that rows hold as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A key of a table, as far as it decides about columns."""

    name: str
    """``PRIMARY`` for the primary key."""
    columns: tuple[str, ...]
    """In the key's order; the empty name stands for an expression."""
    unique: bool = False
    prefixed: bool = False
    """Whether it holds only the beginning of a column, so that it can be no row's identity."""
    parts: tuple[str, ...] = ()
    """What rebuilds each part beside its column, such as ``(10)`` or `` DESC``, or the expression; empty where
    no part needs anything."""
    kind: str = ""
    """``FULLTEXT``, ``SPATIAL`` or ``VECTOR``."""
    options: str = ""
    """What else rebuilds it, such as ``USING HASH``."""
    implicit: bool = field(default=False, compare=False)
    """Whether the server made it for a foreign key: it gives way to any other that begins with its columns. No
    server tells this later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table at one place of the binlog."""

    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str
    """Of columns that are added without one."""
    collation: str
    options: str = ""
    """What else rebuilds it, such as ``ENGINE=InnoDB``."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Its columns in the key's order; empty without one."""
        return next((index.columns for index in self.indexes if index.name == "PRIMARY"), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What tables of a database take from it."""

    charset: str
    collation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a statement's meaning depends on beside itself, and stays while a server runs."""

    version: tuple[int, int, int]
    """As executable comments compare it, for example ``(9, 7, 4)``."""
    mariadb: bool = False
    lower_case_table_names: int = 0
    """0: names as they are; 1 and 2: names of databases and tables are compared without case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a statement's meaning depends on, as its QUERY event tells it."""

    database: str | None = None
    """Where names without a database belong."""
    sql_mode: frozenset[str] = frozenset()
    """Names such as ``ANSI_QUOTES`` and ``NO_BACKSLASH_ESCAPES``, in upper case."""
    server_collation: str | None = None
    """What a database takes that is created without one; None: the server version's own default."""
    utf8mb4_collation: str | None = None
    """``default_collation_for_utf8mb4``; None: the server version's own default."""
    charset_collations: tuple[tuple[str, str], ...] | None = None
    """MariaDB's ``character_set_collations``, as pairs; None: the server version's own default."""
    connection_collation: str | None = None
    """Of text literals in a query; None: the server version's own default of utf8mb4."""
    explicit_timestamps: bool | None = None
    """``explicit_defaults_for_timestamp``; None: the server version's own default."""
    thread: int = 0
    """The connection; temporary tables belong to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What one statement did to one table."""

    name: TableName
    """Before a rename: the old name."""
    old: Table | None
    """None where it was created."""
    new: Table | None
    """None where it was dropped, and under the old name of a rename."""
    renamed_to: TableName | None = None
    """Where it went; the change under that name follows in the same list, with ``renamed_from``."""
    renamed_from: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseChange:
    """What one statement did to a database; tables that went with it are changes of their own, before it."""

    name: str
    old: Database | None
    new: Database | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """A view that a statement made or dropped; its name can be no table's meanwhile."""

    name: TableName
    is_there: bool


Change = TableChange | DatabaseChange
