"""Columns of packets in generated code: the layout of each one's bytes, and the expression that converts them.

Invariant: an expression returns what that of ``rows/compiled/fields`` returns for the same value in the binlog,
or raises. A type without an expression of its own here has the same bytes in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.charset.unmapped import exact
from connectors.mysql.rows.column_rule import ColumnRule
from connectors.mysql.rows.compiled.fields import Field, Remembered, field_of
from connectors.mysql.rows.values.registry import reader_for
from connectors.mysql.rows.values.temporal import ZERO_TIMESTAMP
from connectors.mysql.select.encoders.numbers import YEARS
from connectors.mysql.select.encoders.temporal import time
from connectors.mysql.select.packets.layout import FIXED
from connectors.mysql.select.packets.texts import clock_text, date_text, moment_of
from connectors.mysql.value_text.temporal import datetime_text, fraction_text

_T = FieldType

_WITH_FRACTION = 11
"""Bytes of a date and a time of day with a fraction, of 4 bytes; those of zeros at the end are omitted."""
_FEW_DIGITS = 3
"""Fractions with more digits seldom recur."""


def packet_field(column: MappedColumn, charsets: Charsets, rule: ColumnRule | None = None) -> Field:
    """The field of a column; raises UnsupportedEvent if its type or character set cannot be read."""
    make = _MAKERS.get(column.type)
    field = field_of(column, charsets) if make is None else make(column, charsets)
    if column.type not in FIXED:
        field = replace(field, little=(), big=(), length_size=1, is_packed=True)
    return field if rule is None else replace(field, rule=rule, is_integer=False)


def _int24(column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$a", little=("I" if column.unsigned else "i",), is_integer=True)


_YEARS = {int(text): int(text) for text in YEARS}


def _year(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", little=("H",), bound=_YEARS)


def _labelled(column: MappedColumn, charsets: Charsets) -> Field:
    """An ENUM: the expression for its number is that of the binlog's."""
    return replace(field_of(column, charsets), little=("Q",))


def _set(column: MappedColumn, charsets: Charsets) -> Field:
    read, size = reader_for(column, charsets), column.metadata
    texts = Remembered(lambda bits: exact(read(bits.to_bytes(size, "little"), 0)[0]))
    return Field(value="$n[$a]", little=("Q",), bound=texts)


def _decimal(_column: MappedColumn, _charsets: Charsets) -> Field:
    # A ZEROFILL has zeros before its digits.
    return Field(value="$a.decode() if d[s] != 48 else $n($a)", bound=_without_zeros)


def _without_zeros(text: bytes) -> str:
    digits = text.decode().lstrip("0")
    return digits if digits[:1].isdigit() else f"0{digits}"


def _json(_column: MappedColumn, _charsets: Charsets) -> Field:
    # The server prints a document as the reader of its binary form does.
    return Field(value="$a.decode()")


def _date(_column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n[$a]", bound=_DATES)


def _time(column: MappedColumn, charsets: Charsets) -> Field:
    digits, read = column.metadata, reader_for(column, charsets)
    encode = time(digits)

    def text(raw: bytes) -> Any:
        return exact(read(encode(clock_text(raw, digits)), 0)[0])

    few = digits <= _FEW_DIGITS
    return Field(value="$n[$a]" if few else "$n($a)", bound=Remembered(text) if few else text)


def _datetime(column: MappedColumn, _charsets: Charsets) -> Field:
    return _moment(column, _Moments(column.metadata, zone=""))


def _timestamp(column: MappedColumn, _charsets: Charsets) -> Field:
    return _moment(column, _Moments(column.metadata, zone="Z"))


class _Moments:
    """Texts of DATETIME and TIMESTAMP with so many digits."""

    def __init__(self, digits: int, *, zone: str) -> None:
        self.digits, self.zone = digits, zone
        self.whole = Remembered(self.text)
        """Of a value's bytes."""
        self.seconds = _SECONDS
        """Of the bytes without the fraction."""
        self.fractions = Remembered(
            lambda raw: fraction_text(int.from_bytes(raw, "little"), digits)
        )
        """Of the bytes of a fraction."""

    def text(self, raw: bytes) -> str:
        """The text of a value of any size."""
        ymd, hms, micros = moment_of(raw)
        fraction = fraction_text(micros, self.digits)
        if self.zone and not raw:
            return ZERO_TIMESTAMP + fraction
        return datetime_text(ymd, hms, fraction) + self.zone


def _moment(column: MappedColumn, moments: _Moments) -> Field:
    digits = column.metadata
    if not digits:
        return Field(value="$n[$a]", bound=moments.whole)
    if digits <= _FEW_DIGITS:
        fraction = "{$n[1][d[s + 7:p]]}"
    else:
        rest = {4: "{f % 1000 // 100}", 5: "{two[f % 1000 // 10]}", 6: "{three[f % 1000]}"}[digits]
        fraction = f'.{{three[(f := from_bytes(d[s + 7:p], "little")) // 1000]}}{rest}'
    text = f"f'{{$n[0][d[s:s + 7]]}}{fraction}{moments.zone}'"
    bound = moments.seconds, moments.fractions, moments.whole
    return Field(value=f"{text} if $size == {_WITH_FRACTION} else $n[2][$a]", bound=bound)


def _second_of(raw: bytes) -> str:
    ymd, hms, _ = moment_of(raw)
    return datetime_text(ymd, hms, "")


_DATES = Remembered(lambda raw: date_text(raw).decode())
_SECONDS = Remembered(_second_of)

_MAKERS: dict[int, Callable[[MappedColumn, Charsets], Field]] = {
    _T.INT24: _int24,
    _T.YEAR: _year,
    _T.ENUM: _labelled,
    _T.SET: _set,
    _T.NEWDECIMAL: _decimal,
    _T.JSON: _json,
    _T.DATE: _date,
    _T.TIME2: _time,
    _T.DATETIME2: _datetime,
    _T.TIMESTAMP2: _timestamp,
}
