"""How each column's bytes become JSON text: its size, and an expression over its raw value.

The law: an expression is Python source over one variable and the names it declares; it never contains anything
from a server. A type without an expression of its own goes through its reader in ``values``.
"""

from __future__ import annotations

import json.encoder
from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.mysql.charsets import BINARY, Charsets
from connectors.mysql.compiled import clocks
from connectors.mysql.compiled.decimals import decimal_json
from connectors.mysql.skipping import extent
from connectors.mysql.table_map import FieldType, MappedColumn
from connectors.mysql.values.documents import document_text
from connectors.mysql.values.numbers import shortest_float32
from connectors.mysql.values.registry import reader_for
from connectors.mysql.values.strings import charset_of, decoder_of, labels_of

_T = FieldType

quoted: Callable[[str], str] = json.encoder.encode_basestring
"""A JSON string with all but quotes, backslashes and control characters as they are."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column: either ``format`` (of struct, little-endian, fixed size) or ``length_size`` is set.

    ``text`` is an expression with ``{v}`` for the raw value: what ``format`` unpacks, or the bytes behind the
    length. ``name`` and ``value`` are what the expression refers to as ``{n}``, if it does.
    """

    text: str
    format: str = ""
    length_size: int = 0
    value: Any = None


def field_of(column: MappedColumn, charsets: Charsets) -> Field:
    """The field of a column; raise UnsupportedEvent where its type or character set cannot be read."""
    reader = reader_for(column, charsets)
    make = _MAKERS.get(column.type)
    if make is not None:
        return make(column, charsets)
    size, length_size = extent(column)

    def through_reader(raw: bytes) -> str:
        prefix = len(raw).to_bytes(length_size, "little") if length_size else b""
        return orjson.dumps(reader(prefix + raw, 0)[0]).decode()

    if length_size:
        return Field("{n}({v})", length_size=length_size, value=through_reader)
    return Field("{n}({v})", f"{size}s", value=through_reader)


_INTEGERS = {_T.TINY: "bB", _T.SHORT: "hH", _T.LONG: "iI", _T.LONGLONG: "qQ"}


def _integer(column: MappedColumn, _charsets: Charsets) -> Field:
    return Field("{v}", _INTEGERS[FieldType(column.type)][1 if column.unsigned else 0])


def _int24(column: MappedColumn, _charsets: Charsets) -> Field:
    signed = not column.unsigned
    return Field("{n}({v})", "3s", value=lambda raw: int.from_bytes(raw, "little", signed=signed))


def _year(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field("{n}[{v}]", "B", value=[0, *range(1901, 2156)])


def _float(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field("{n}({v})", "4s", value=shortest_float32)


def _double(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field("{v}", "d")


def _decimal(column: MappedColumn, _charsets: Charsets) -> Field:
    size, _ = extent(column)
    return Field(
        "{n}({v})", f"{size}s", value=decimal_json(column.metadata & 0xFF, column.metadata >> 8)
    )


def _clock(
    make: Callable[[int], Callable[[bytes], str]],
) -> Callable[[MappedColumn, Charsets], Field]:
    def field(column: MappedColumn, _charsets: Charsets) -> Field:
        size, _ = extent(column)
        return Field("{n}({v})", f"{size}s", value=make(column.metadata))

    return field


def _date(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field("{n}[{v}]", "3s", value=clocks.Dates())


def _enum(column: MappedColumn, charsets: Charsets) -> Field:
    labels = [quoted(label) for label in ("", *labels_of(column, charsets))]
    return Field("{n}[{v}]", "B" if column.metadata == 1 else "H", value=labels)


def _set(column: MappedColumn, charsets: Charsets) -> Field:
    read = reader_for(column, charsets)
    size = column.metadata
    return Field("{n}[{v}]", f"{size}s", value=_Remembered(lambda raw: quoted(read(raw, 0)[0])))


class _Remembered(dict[bytes, str]):
    """Texts by raw value, made when first asked for; forgotten when there are too many."""

    def __init__(self, make: Callable[[bytes], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: bytes) -> str:
        if len(self) > 10_000:
            self.clear()
        text = self[raw] = self._make(raw)
        return text


def _string(column: MappedColumn, charsets: Charsets) -> Field:
    _, length_size = extent(column)
    charset = charset_of(column, charsets)
    if charset == BINARY:
        padded = column.metadata if column.type == _T.STRING else 0
        return Field("{n}({v})", length_size=length_size, value=_base64(padded))
    if charset in ("utf8", "utf8mb3", "utf8mb4", "ascii"):
        # The most frequent case spares a call: str() knows these by itself.
        codec = "ascii" if charset == "ascii" else "utf-8"
        return Field(f'{{n}}(str({{v}}, "{codec}"))', length_size=length_size, value=quoted)
    decode = decoder_of(column, charsets)
    return Field("{n}({v})", length_size=length_size, value=lambda raw: quoted(decode(raw)))


def _base64(padded: int) -> Callable[[bytes], str]:
    if padded:
        return lambda raw: f'"{b2a_base64(raw.ljust(padded, _ZERO), newline=False).decode()}"'
    return lambda raw: f'"{b2a_base64(raw, newline=False).decode()}"'


_ZERO = b"\0"


def _json(column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(
        "{n}({v})", length_size=column.metadata, value=lambda raw: quoted(document_text(raw))
    )


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
    _T.DATETIME2: _clock(clocks.datetime_json),
    _T.TIMESTAMP2: _clock(clocks.timestamp_json),
    _T.ENUM: _enum,
    _T.SET: _set,
    _T.VARCHAR: _string,
    _T.VAR_STRING: _string,
    _T.STRING: _string,
    _T.BLOB: _string,
    _T.JSON: _json,
}
