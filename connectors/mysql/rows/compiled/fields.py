"""Columns in generated code: the layout of each one's bytes, and the expression that converts them for orjson.

Invariant: an expression is Python source over the values of its layout and names of our own; it
never contains anything from a server. A type without an expression of its own goes through its
reader in ``values``. Inexact text raises UnicodeDecodeError or Replaced, and its rows are marked by
``rows``.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from connectors.mysql.binlog.buffer import packed
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import BINARY, Charsets
from connectors.mysql.charset.unmapped import ReplacedText, exact
from connectors.mysql.rows.column_rule import ColumnRule
from connectors.mysql.rows.compiled import temporal
from connectors.mysql.rows.compiled.decimals import decimal_code, decimal_json
from connectors.mysql.rows.compiled.json_text import Documents
from connectors.mysql.rows.counter import extent
from connectors.mysql.rows.values.registry import reader_for
from connectors.mysql.rows.values.strings import charset_of, exact_decoder_of, labels_of
from connectors.mysql.rows.values.temporal import ZERO_TIMESTAMP
from connectors.mysql.value_text.floats import shortest_float32

_T = FieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column: a value of fixed size is read by ``little`` or ``big``, another has a ``length_size``.

    ``value`` is an expression of a str, int or float: ``$a``, ``$b`` and so on are what the formats
    read, or ``$a`` the bytes after the length; ``$raw`` the bytes of a fixed size; ``$n`` is
    ``bound``. Bytes after a length are ``d[s:p]``, and ``$size`` of them.
    """

    value: str
    little: tuple[str, ...] = ()
    """Struct formats, little-endian."""
    big: tuple[str, ...] = ()
    """Struct formats, big-endian."""
    length_size: int = 0
    is_packed: bool = False
    """Whether the length is a length-encoded integer, of which ``length_size`` is the first byte."""
    bound: Any = None
    is_integer: bool = False
    rule: ColumnRule | None = None
    """Applied to the expression's value; None: it is published unchanged."""

    @property
    def size(self) -> int:
        """Bytes of a value of fixed size."""
        return struct.calcsize("<" + "".join(self.little or self.big))


NAMES: dict[str, Any] = temporal.NAMES | {
    "base64": b2a_base64,
    "zero_timestamp": ZERO_TIMESTAMP,
    "packed": packed,
}
"""Other names that expressions refer to."""


def field_of(column: MappedColumn, charsets: Charsets, rule: ColumnRule | None = None) -> Field:
    """The field of a column; raises UnsupportedEvent if its type or character set cannot be read."""
    field = _as_is(column, charsets)
    return field if rule is None else replace(field, rule=rule, is_integer=False)


def _as_is(column: MappedColumn, charsets: Charsets) -> Field:
    reader = reader_for(column, charsets)
    make = _MAKERS.get(column.type)
    if make is not None:
        return make(column, charsets)
    size, length_size = extent(column)

    def through_reader(raw: bytes) -> Any:
        prefix = len(raw).to_bytes(length_size, "little") if length_size else b""
        return exact(reader(prefix + raw, 0)[0])

    if length_size:
        return Field(value="$n($a)", length_size=length_size, bound=through_reader)
    if size <= _FEW_BYTES:
        return Field(value="$n[$a]", little=(f"{size}s",), bound=Remembered(through_reader))
    return Field(value="$n($a)", little=(f"{size}s",), bound=through_reader)


_FEW_BYTES = 3
"""Values of at most so many bytes are likely to recur."""
_INTEGERS = {_T.TINY: "bB", _T.SHORT: "hH", _T.LONG: "iI", _T.LONGLONG: "qQ"}


def _integer(column: MappedColumn, _charsets: Charsets) -> Field:
    format_ = _INTEGERS[FieldType(column.type)][1 if column.unsigned else 0]
    return Field(value="$a", little=(format_,), is_integer=True)


def _int24(column: MappedColumn, _charsets: Charsets) -> Field:
    high = "B" if column.unsigned else "b"
    return Field(value="($b << 16 | $a)", little=("H", high), is_integer=True)


def _year(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("B",), bound=[0, *range(1901, 2156)])


def _float(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("4s",), bound=Remembered(shortest_float32))


def _double(_column: MappedColumn, _charsets: Charsets) -> Field:
    # Only for NaN and infinities is the difference to itself not 0.
    return Field(value="$a if $a - $a == 0 else $n($a)", little=("d",), bound=_refused)


def _refused(value: float) -> float:
    raise ValueError(f"a DOUBLE that is {value}")


def _decimal(column: MappedColumn, _charsets: Charsets) -> Field:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    code = decimal_code(precision, scale)
    return Field(
        value=f"{code.text} if $a >= {code.bias} else $n($raw)",
        big=code.formats,
        bound=decimal_json(precision, scale),
    )


def _date(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="dates[$a]", little=("3s",))


def _datetime(column: MappedColumn, _charsets: Charsets) -> Field:
    if not column.metadata:
        return Field(value="datetimes[$a]", little=("5s",))
    format_, fraction = temporal.fraction(column.metadata)
    return Field(value=f"f'{{datetimes[$a]}}{fraction}'", little=("5s", format_))


def _timestamp(column: MappedColumn, _charsets: Charsets) -> Field:
    format_, fraction = temporal.fraction(column.metadata)
    text = f"f'{{timestamps[$a]}}{fraction}Z' if $a else f'{{zero_timestamp}}{fraction}'"
    return Field(value=text, little=("I", format_) if format_ else ("I",))


def _enum(column: MappedColumn, charsets: Charsets) -> Field:
    labels = ["", *labels_of(column, charsets)]
    format_ = "B" if column.metadata == 1 else "H"
    if any(isinstance(label, ReplacedText) for label in labels):
        return Field(value="$n($a)", little=(format_,), bound=lambda n: exact(labels[n]))
    return Field(value="$n[$a]", little=(format_,), bound=labels)


def _set(column: MappedColumn, charsets: Charsets) -> Field:
    read = reader_for(column, charsets)
    texts = Remembered(lambda raw: exact(read(raw, 0)[0]))
    return Field(value="$n[$a]", little=(f"{column.metadata}s",), bound=texts)


class Remembered(dict[Any, Any]):
    """Values by their bytes, computed on first use; cleared when there are too many."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: Any) -> Any:
        if len(self) > 10_000:
            self.clear()
        value = self[raw] = self._make(raw)
        return value


def _string(column: MappedColumn, charsets: Charsets) -> Field:
    _, length_size = extent(column)
    charset = charset_of(column, charsets)
    if charset == BINARY:
        padded = column.metadata if column.type == _T.STRING else 0
        raw = f'$a.ljust({padded}, b"\\0")' if padded else "$a"
        return Field(value=f"base64({raw}, newline=False).decode()", length_size=length_size)
    if charset in ("utf8", "utf8mb3", "utf8mb4"):
        return Field(value="$a.decode()", length_size=length_size)
    return Field(value="$n($a)", length_size=length_size, bound=exact_decoder_of(column, charsets))


def _json(column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n($a)", length_size=column.metadata, bound=Documents().text)


_MAKERS: dict[int, Callable[[MappedColumn, Charsets], Field]] = {
    _T.TINY: _integer,
    _T.SHORT: _integer,
    _T.LONG: _integer,
    _T.LONGLONG: _integer,
    _T.INT24: _int24,
    _T.YEAR: _year,
    _T.FLOAT: _float,
    _T.DOUBLE: _double,
    _T.NEWDECIMAL: _decimal,
    _T.DATE: _date,
    _T.DATETIME2: _datetime,
    _T.TIMESTAMP2: _timestamp,
    _T.ENUM: _enum,
    _T.SET: _set,
    _T.VARCHAR: _string,
    _T.VAR_STRING: _string,
    _T.STRING: _string,
    _T.BLOB: _string,
    _T.JSON: _json,
}
