"""The bytes of a row in the binary protocol, and of each column's value in it.

Invariant: a value has the layout that the type in the result's own description has; a table whose result has
another type than its definition is not read.
Source: MySQL's sql/protocol_classic.cc, Protocol_binary; and its manual of the protocol, "Binary Protocol
Resultset Row".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connectors.mysql.types.registry import MappedColumn, binlog_type

HEAD_SIZE = 5
"""Bytes before the bitmap of NULLs: those of the packet's length and number, and a zero."""
FIRST_BIT = 2
"""The bit of the first column in that bitmap."""
ROW = 0
"""The first byte of the packet of a row."""


def bitmap_size(columns: int) -> int:
    """Bytes of the bitmap of NULLs."""
    return (columns + FIRST_BIT + 7) // 8


def difference(columns: Sequence[MappedColumn], types: Iterable[int]) -> str | None:
    """How a result's types differ from those of a table's columns; None if they are as expected."""
    found = list(types)
    if len(found) != len(columns):
        return f"a SELECT returns {len(found)} columns, not {len(columns)}"
    for column, kind in zip(columns, found, strict=True):
        known = binlog_type(column.type)
        if kind not in ((known and known.packet_types) or {column.type}):
            return f"a SELECT returns column {column.name!r} with the type {kind}"
    return None
