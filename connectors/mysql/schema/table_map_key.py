"""The key that table maps contain for a table, which is not always a primary key.

Invariant: for a table's current definition, this is the key in a table map with full metadata.
Source: MySQL's sql/dd_table_share.cc, prepare_share: the first unique key without NULLs is
promoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets, lowered
from connectors.mysql.ddl.definition import Column, Table
from connectors.mysql.schema.hidden_columns import is_row_end


def row_key(table: Table, charsets: Charsets | None = None) -> tuple[str, ...]:
    """The primary key, else the unique key that the server promotes; empty without either.

    Without ``charsets``, characters count as four bytes.
    """
    if table.primary_key:
        return table.primary_key
    return next(iter(_promotable(table, charsets)), ())


def depends_on_order(table: Table) -> bool:
    """Whether several unique keys qualify, so that the server's order of keys decides."""
    return not table.primary_key and len(list(_promotable(table, None))) > 1


def key_differences(table_map: TableMap, table: Table, charsets: Charsets) -> Iterator[str]:
    """Contradictions between the key of a table map with full metadata and a definition."""
    names = [column.name or "" for column in table_map.columns]
    reported = _without_row_end([names[index] for index in table_map.primary_key or ()], table)
    primary = _without_row_end(table.primary_key, table)
    if reported == primary:
        return
    could = [_without_row_end(key, table) for key in _promotable(table, charsets)]
    if not primary and (not reported or reported in could):
        return
    yield f"its key is ({', '.join(reported)}) in its rows, ({', '.join(primary)}) defined"


def _without_row_end(key: Sequence[str], table: Table) -> list[str]:
    """Return a key without the column that MariaDB adds, because only some of MariaDB's lists show it."""
    return [lowered(name) for name in key if not is_row_end(name, table)]


def _promotable(table: Table, charsets: Charsets | None) -> Iterator[tuple[str, ...]]:
    columns = {lowered(column.name): column for column in table.columns}
    for index in table.indexes:
        parts = [columns.get(lowered(name)) for name in index.columns]
        known = [part for part in parts if part is not None and not part.nullable]
        if not index.unique or index.prefixed or not parts or len(known) < len(parts):
            continue
        # MariaDB stores a longer key as a hash, which does not order rows; MySQL has no longer key.
        if sum(_bytes(part, charsets) for part in known) <= _LONGEST:
            yield index.columns


def _bytes(column: Column, charsets: Charsets | None) -> int:
    """Approximate size in bytes of a column in a key."""
    if _LONG.match(column.type):
        return _LONGEST + 1
    sized = _SIZED.match(column.type)
    if sized is None:
        return 8
    if column.charset is None:
        return int(sized[1])
    return int(sized[1]) * (charsets.width(column.charset) if charsets else _WIDEST)


_LONGEST, _WIDEST = 3072, 4
_LONG = re.compile(r"(tiny|medium|long)?(text|blob)\b|json\b")
_SIZED = re.compile(r"(?:var)?(?:char|binary)\((\d+)\)")
