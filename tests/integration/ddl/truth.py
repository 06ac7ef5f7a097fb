"""A server's user tables, in the same shape as the model's."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenColumn:
    """A column, as far as rows depend on it."""

    name: str
    type: str
    nullable: bool
    charset: str | None
    collation: str | None
    generated: str | None
    invisible: bool


UniqueKey = tuple[str, tuple[str, ...], bool]
"""A key's name in lower case; its columns, the empty name for an expression; whether it has a prefix of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTable:
    """A table's columns in order, and the keys that can identify a row."""

    columns: tuple[SeenColumn, ...]
    primary_key: tuple[str, ...]
    unique: tuple[UniqueKey, ...] = ()
    """Without the primary key, in the order of their names."""
    collation: str | None
    """Of columns that are added without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All databases with their collations, and all tables."""

    databases: dict[str, str]
    tables: dict[tuple[str, str], SeenTable]


_NOT_SYSTEM = "table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
_TABLES = f"""\
SELECT table_schema, table_name, table_collation FROM information_schema.tables
 WHERE {_NOT_SYSTEM} AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')"""
_COLUMNS = f"""\
SELECT table_schema, table_name, column_name, column_type, is_nullable, character_set_name,
       collation_name, extra
  FROM information_schema.columns WHERE {_NOT_SYSTEM} ORDER BY table_schema, table_name, ordinal_position"""
_KEYS = f"""\
SELECT table_schema, table_name, column_name
  FROM information_schema.statistics WHERE {_NOT_SYSTEM} AND index_name = 'PRIMARY' ORDER BY seq_in_index"""
_UNIQUE = f"""\
SELECT table_schema, table_name, LOWER(index_name), COALESCE(column_name, ''), sub_part IS NOT NULL
  FROM information_schema.statistics
 WHERE {_NOT_SYSTEM} AND non_unique = 0 AND index_name <> 'PRIMARY' ORDER BY 3, seq_in_index"""
_DATABASES = "SELECT schema_name, default_collation_name FROM information_schema.schemata"


def truth(cursor: Any) -> Seen:
    """Ask a server."""
    columns, keys = defaultdict(list), defaultdict(list)
    for database, table, *column in _rows(cursor, _COLUMNS):
        columns[database, table].append(_column(*column))
    for database, table, name in _rows(cursor, _KEYS):
        keys[database, table].append(name)
    unique: dict[tuple[str, str], dict[str, list[tuple[str, bool]]]] = defaultdict(dict)
    mariadb = "MariaDB" in _rows(cursor, "SELECT VERSION()")[0][0]
    for database, table, index, name, has_length in _rows(cursor, _UNIQUE):
        points = {one.name for one in columns[database, table] if one.type == "point"}
        # MySQL takes the length of a POINT for all of it: such a key is promoted; MariaDB's is not.
        is_prefix = bool(has_length) and (mariadb or name not in points)
        unique[database, table].setdefault(index, []).append((name, is_prefix))
    tables = {
        (database, table): SeenTable(
            columns=tuple(columns[database, table]),
            primary_key=tuple(keys[database, table]),
            unique=tuple(
                (index, tuple(name for name, _ in parts), any(prefix for _, prefix in parts))
                for index, parts in sorted(unique[database, table].items())
            ),
            collation=collation,
        )
        for database, table, collation in _rows(cursor, _TABLES)
    }
    databases = {name: result for name, result in _rows(cursor, _DATABASES) if name not in SYSTEM}
    return Seen(databases=databases, tables=tables)


def _rows(cursor: Any, query: str) -> list[tuple[Any, ...]]:
    cursor.execute(query)
    return [tuple(_text(value) for value in row) for row in cursor.fetchall()]


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _column(
    name: str, kind: str, nullable: str, charset: str | None, collation: str | None, extra: str
) -> SeenColumn:
    words = extra.upper()
    virtual, stored = "VIRTUAL" in words, "STORED" in words or "PERSISTENT" in words
    return SeenColumn(
        name=name,
        type=kind,
        nullable=nullable == "YES",
        # Old servers call labels of bytes so, as if they were text.
        charset=None if charset == "binary" else charset,
        collation=None if charset == "binary" else collation,
        # DEFAULT_GENERATED says that a default is an expression.
        generated="virtual" if virtual else "stored" if stored else None,
        invisible="INVISIBLE" in words,
    )
