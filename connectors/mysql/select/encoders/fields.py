"""Columns in generated code: the expressions that make the bytes of each one's value from its text.

Invariant: an expression is Python source over a value's text and names of our own; it never
contains anything from a server. It makes the bytes that ``rows/compiled/fields`` reads, or raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.rows.counter import extent
from connectors.mysql.rows.values import json_binary
from connectors.mysql.select.encoders import numbers, temporal

_T = FieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column: values that struct packs, and the bytes after them.

    In expressions ``$v`` is the text, ``$n`` is ``bound``, and ``$x`` is a variable of the column's own.
    """

    formats: tuple[str, ...] = ()
    """Struct formats, little-endian."""
    values: tuple[str, ...] = ()
    """An expression for each format."""
    tail: str = ""
    """An expression of bytes; empty if there are none."""
    bound: Any = None


NAMES: dict[str, Any] = {
    "written": json_binary.WRITTEN,
    "years": numbers.YEARS,
    "dates": temporal.DATES,
    "datetime_hours": temporal.DATETIME_HOURS,
    "datetime_clocks": temporal.DATETIME_CLOCKS,
    "timestamp_hours": temporal.TIMESTAMP_HOURS,
    "timestamp_clocks": temporal.TIMESTAMP_CLOCKS,
}
"""Other names that expressions refer to."""

_FEW_DIGITS = 3
"""Times with more digits seldom recur."""


def field_of(column: MappedColumn) -> Field:
    """The field of a column; raises SnapshotUnsupported if its values have no known form."""
    make = _MAKERS.get(column.type)
    if make is None:
        raise SnapshotUnsupported(f"column {column.name!r} has the binlog's type {column.type}")
    return make(column)


_INTEGERS = {_T.TINY: "bB", _T.SHORT: "hH", _T.LONG: "iI", _T.LONGLONG: "qQ"}


def _integer(column: MappedColumn) -> Field:
    format_ = _INTEGERS[FieldType(column.type)][1 if column.unsigned else 0]
    return Field(formats=(format_,), values=("int($v)",))


def _int24(column: MappedColumn) -> Field:
    return Field(
        formats=("H", "B" if column.unsigned else "b"),
        values=("($x := int($v)) & 65535", "$x >> 16"),
    )


def _year(_column: MappedColumn) -> Field:
    return Field(formats=("B",), values=("years[$v]",))


def _float(_column: MappedColumn) -> Field:
    return Field(formats=("f",), values=("float($v)",))


def _double(_column: MappedColumn) -> Field:
    return Field(formats=("d",), values=("float($v)",))


def _decimal(column: MappedColumn) -> Field:
    size, _ = extent(column)
    encode = numbers.decimal(column.metadata & 0xFF, column.metadata >> 8)
    return Field(formats=(f"{size}s",), values=("$n($v)",), bound=encode)


def _bit(column: MappedColumn) -> Field:
    size, _ = extent(column)
    return Field(formats=(f"{size}s",), values=("$n($v)",), bound=numbers.fixed(size))


def _date(_column: MappedColumn) -> Field:
    return Field(formats=("3s",), values=("dates[$v]",))


def _datetime(column: MappedColumn) -> Field:
    return _moment("datetime", 5, column.metadata)


def _timestamp(column: MappedColumn) -> Field:
    return _moment("timestamp", 4, column.metadata)


def _moment(kind: str, size: int, digits: int) -> Field:
    """Date and time of day as one number, and the fraction after it, big-endian."""
    if not digits:
        whole = f"{kind}_hours[$v[:13]] + {kind}_clocks[$v[13:]]"
        return Field(formats=(f"{size}s",), values=(f"({whole}).to_bytes({size}, 'big')",))
    whole = f"{kind}_hours[$v[:13]] + {kind}_clocks[$v[13:19]]"
    part_size = temporal.fraction_size(digits)
    scale = temporal.fraction_scale(digits)
    # A text of another length has other digits than the column, and is no number.
    part = f"(int($v[20:]) * {scale} if len($v) == {20 + digits} else int($v))"
    size += part_size
    value = f"(({whole}) << {8 * part_size} | {part}).to_bytes({size}, 'big')"
    return Field(formats=(f"{size}s",), values=(value,))


def _time(column: MappedColumn) -> Field:
    size, _ = extent(column)
    encode = temporal.time(column.metadata)
    few = column.metadata <= _FEW_DIGITS
    return Field(
        formats=(f"{size}s",),
        values=("$n[$v]" if few else "$n($v)",),
        bound=temporal.Remembered(encode) if few else encode,
    )


_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _labelled(column: MappedColumn) -> Field:
    size = column.metadata
    if size in _UNSIGNED:
        return Field(formats=(_UNSIGNED[size],), values=("int($v)",))
    return Field(formats=("3s",), values=("int($v).to_bytes(3, 'little')",))


def _bytes(column: MappedColumn) -> Field:
    return _sized(column, "$v")


def _json(column: MappedColumn) -> Field:
    # The server prints a document as the reader of its binary form does.
    return _sized(column, "written + $v")


def _sized(column: MappedColumn, value: str) -> Field:
    """A length, and the bytes after it."""
    _, length_size = extent(column)
    length = f"len($x := {value})"
    if length_size in _UNSIGNED:
        return Field(formats=(_UNSIGNED[length_size],), values=(length,), tail="$x")
    return Field(
        formats=("H", "B"),
        values=(f"{length} & 65535", "len($x) >> 16"),
        tail="$x",
    )


_MAKERS: dict[int, Callable[[MappedColumn], Field]] = {
    _T.TINY: _integer,
    _T.SHORT: _integer,
    _T.LONG: _integer,
    _T.LONGLONG: _integer,
    _T.INT24: _int24,
    _T.YEAR: _year,
    _T.FLOAT: _float,
    _T.DOUBLE: _double,
    _T.NEWDECIMAL: _decimal,
    _T.BIT: _bit,
    _T.DATE: _date,
    _T.DATETIME2: _datetime,
    _T.TIMESTAMP2: _timestamp,
    _T.TIME2: _time,
    _T.ENUM: _labelled,
    _T.SET: _labelled,
    _T.VARCHAR: _bytes,
    _T.STRING: _bytes,
    _T.BLOB: _bytes,
    _T.GEOMETRY: _bytes,
    _T.VECTOR: _bytes,
    _T.JSON: _json,
}
