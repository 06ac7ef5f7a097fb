"""The bytes of a row in the binary protocol, and of each column's value in it.

Invariant: a value has the layout that the type in the result's own description has; a table whose result has
another type than its definition is not read.
Source: MySQL's sql/protocol_classic.cc, Protocol_binary; and its manual of the protocol, "Binary Protocol
Resultset Row".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connectors.mysql.binlog.table_map import FieldType, MappedColumn

_T = FieldType

HEAD_SIZE = 5
"""Bytes before the bitmap of NULLs: those of the packet's length and number, and a zero."""
FIRST_BIT = 2
"""The bit of the first column in that bitmap."""
ROW = 0
"""The first byte of the packet of a row."""

FIXED: dict[int, int] = {
    _T.TINY: 1, _T.SHORT: 2, _T.YEAR: 2, _T.INT24: 4, _T.LONG: 4, _T.LONGLONG: 8, _T.FLOAT: 4, _T.DOUBLE: 8,
    # As the SELECT list casts them.
    _T.ENUM: 8, _T.SET: 8,
}  # fmt: skip
"""Bytes of values of fixed size. Others have a length, as a length-encoded integer, before them."""

_OWN_TYPES: dict[int, set[int]] = {
    _T.ENUM: {_T.LONGLONG},
    _T.SET: {_T.LONGLONG},
    _T.DATETIME2: {_T.DATETIME},
    _T.TIMESTAMP2: {_T.TIMESTAMP},
    _T.TIME2: {_T.TIME},
}
"""The types that a result has, where they differ from the binlog's."""
_STRINGS = {_T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.BLOB, 249, 250, 251}
"""Types whose values are bytes; a result may have any of them for another. The last are those of TINYBLOB,
MEDIUMBLOB and LONGBLOB."""


def bitmap_size(columns: int) -> int:
    """Bytes of the bitmap of NULLs."""
    return (columns + FIRST_BIT + 7) // 8


def difference(columns: Sequence[MappedColumn], types: Iterable[int]) -> str | None:
    """How a result's types differ from those of a table's columns; None if they are as expected."""
    found = list(types)
    if len(found) != len(columns):
        return f"a SELECT returns {len(found)} columns, not {len(columns)}"
    for column, kind in zip(columns, found, strict=True):
        expected = _OWN_TYPES.get(column.type, {column.type})
        if expected <= _STRINGS:
            expected = _STRINGS
        if kind not in expected:
            return f"a SELECT returns column {column.name!r} with the type {kind}"
    return None
