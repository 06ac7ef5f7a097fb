"""Hidden columns: the server's own columns, which are in rows but not in definitions.

MariaDB's hidden columns come after all other columns. MySQL's come after the columns that the table had
when the index was created.

Invariant: a hidden column must match its known form; otherwise, the rows are not of the defined table.
Source: MariaDB's sql/sql_table.cc (DB_ROW_HASH) and its manual on system-versioned tables; MySQL
8.0.13's sql/sql_table.cc, add_functional_index_to_create_list, whose columns later versions omit
from the binlog.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Index, Server, Table
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.types.geometries import is_geometry
from connectors.mysql.types.registry import FieldType, MappedColumn, column_type

_ROW_START, _ROW_END = "row_start", "row_end"
_ROW_HASH = re.compile(r"DB_ROW_HASH_\d+")
_VERSIONED = re.compile(r"\bSYSTEM\s+VERSIONING\b|\bSYSTEM\s+VERSIONED\b", re.IGNORECASE)
_AS_ROW_END = re.compile(r"\bAS\s+ROW\s+END\b", re.IGNORECASE)


def hidden_columns(
    extra: Sequence[MappedColumn], table: Table, charsets: Charsets, *, hides_not_null: bool = False
) -> tuple[ColumnDefinition, ...] | None:
    """Return definitions of MariaDB's columns after the columns of ``table``; None if one is unexplained.

    ``hides_not_null``: the table map may mark NOT NULL columns as nullable.
    """
    if hides_not_null:
        extra = [replace(one, nullable=one.type != FieldType.TIMESTAMP2) for one in extra]
    names = _names(extra, table)
    if names is None:
        return None
    return tuple(
        hidden_column(column, name, charsets) for column, name in zip(extra, names, strict=True)
    )


def row_hashes(table_map: TableMap, table: Table | None, *, server: Server) -> frozenset[int]:
    """Return the indexes of columns that are MariaDB's hashes for too long unique keys, not user data.

    Without a definition, they are identified only by name and type.
    """
    if not server.mariadb:
        return frozenset()
    first = 0 if table is None else len(table.columns)
    return frozenset(
        index
        for index, column in enumerate(table_map.columns)
        if index >= first
        and column.type == FieldType.LONGLONG
        and column.name is not None
        and _ROW_HASH.fullmatch(column.name)
    )


def row_times(table: Table) -> tuple[str, ...]:
    """Return the period columns that MariaDB adds to a system-versioned table whose definition has none."""
    is_versioned = _VERSIONED.search(table.options) is not None
    has_own = any(_AS_ROW_END.search(column.definition) for column in table.columns)
    return (_ROW_START, _ROW_END) if is_versioned and not has_own else ()


def is_row_end(name: str, table: Table) -> bool:
    """Whether a column is the one that MariaDB adds to every key of a system-versioned table."""
    shown = next((column for column in table.columns if column.name == name), None)
    if shown is None:
        return name == _ROW_END
    return bool(_AS_ROW_END.search(shown.definition))


def _names(extra: Sequence[MappedColumn], table: Table) -> list[str] | None:
    names: list[str] = []
    for column in extra:
        wanted = _name(column, names, table)
        if wanted is None or (column.name is not None and column.name != wanted):
            return None
        names.append(wanted)
    return names


def _name(column: MappedColumn, before: list[str], table: Table) -> str | None:
    """Return the name of MariaDB's hidden column of this form after the columns ``before``; None if unknown."""
    if column.type == FieldType.TIMESTAMP2 and column.metadata == 6 and not column.nullable:
        reported = column.name is not None or _VERSIONED.search(table.options) is not None
        return next((n for n in (_ROW_START, _ROW_END) if reported and n not in before), None)
    if column.type == FieldType.LONGLONG and column.unsigned is not False:
        hashes = sum(1 for name in before if _ROW_HASH.fullmatch(name))
        types = {column.name: column.type for column in table.columns}
        keys = sum(
            1
            for index in table.indexes
            if index.unique
            and index.name != "PRIMARY"
            # Any column may have this type, but only a hash has this name.
            and (column.name is not None or _may_have_hash(index, types))
        )
        return f"DB_ROW_HASH_{hashes + 1}" if hashes < keys else None
    return None


_SHORT = 767
"""Bytes of a key that every engine of MariaDB accepts without a hash."""
_CHARACTER = 4
"""The maximum number of bytes of a character in any character set."""
_OTHER = 30
"""The maximum number of bytes of a value that is neither text nor bytes."""
_SIZED = re.compile(r"(char|varchar|binary|varbinary)\((\d+)\)")
_UNSIZED = re.compile(r"(?:tiny|medium|long)?(?:text|blob)|json")


def _may_have_hash(index: Index, types: Mapping[str, str]) -> bool:
    """Whether a unique key is a hash, or may be too long for an index of some engine."""
    parts = index.parts or ("",) * len(index.columns)
    sizes = (
        _size(types.get(name, ""), part) for name, part in zip(index.columns, parts, strict=True)
    )
    return "USING HASH" in index.options.upper() or sum(sizes) > _SHORT


def _size(kind: str, part: str) -> int:
    """The maximum number of bytes of a key's part."""
    sized = _SIZED.match(kind)
    is_unsized = _UNSIZED.match(kind) is not None or (is_geometry(kind) and kind != "point")
    if sized is None and not is_unsized:
        return _OTHER
    length = part[1:].partition(")")[0] if part.startswith("(") else sized and sized[2]
    if not length:
        return _SHORT + 1
    is_text = sized is None or "char" in sized[1]
    return int(length) * (_CHARACTER if is_text else 1)


def names_of_expressions(table: Table) -> list[str]:
    """Return the names of the valueless columns that early MySQL 8.0 logs for indexes on expressions."""
    return [name for index in table.indexes for name in _expressions(index)]


def _expressions(index: Index) -> list[str]:
    return [
        hashlib.md5(f"{index.name}{part}".encode(), usedforsecurity=False).hexdigest()
        for part, column in enumerate(index.columns)
        if not column
    ]


def _charset(collation: int | None, charsets: Charsets) -> str | None:
    """Return the character set of a collation; None if the server does not list the collation."""
    try:
        return None if collation is None else charsets.name(collation)
    except KeyError:
        return None


def hidden_column(column: MappedColumn, name: str, charsets: Charsets) -> ColumnDefinition:
    """Return the definition of a hidden column, by its form in the rows."""
    if _ROW_HASH.fullmatch(name):
        column = replace(column, unsigned=True)
    return ColumnDefinition(
        name=name,
        column_type=column_type(column, charsets),
        nullable=column.nullable,
        collation=column.collation,
        charset=_charset(column.collation, charsets),
        generated=True,
        visible=False,
    )
