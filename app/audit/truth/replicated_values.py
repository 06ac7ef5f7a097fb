"""Tables and values of mysql-replication, in the form in which mysqlbinlog prints them.

Invariant: one form for both witnesses, so that both use one comparison. Values that the package
decodes differently from MySQL are UNTOLD, which is counted as not judged.
"""

from __future__ import annotations

import json
from calendar import timegm
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from app.audit.table_shape import Column, Shape
from app.audit.value_comparison import UNTOLD
from connectors.mysql.stream import second_reader as read

_PARTIAL = b"JSON_DIFF"
_BLOBS = {1: "TINY", 2: "", 3: "MEDIUM", 4: "LONG"}
_TYPES = {
    1: "TINYINT", 2: "SMALLINT", 3: "INT", 4: "FLOAT", 5: "DOUBLE", 8: "BIGINT", 9: "MEDIUMINT", 10: "DATE",
    13: "YEAR", 16: "BIT", 17: "TIMESTAMP", 18: "DATETIME", 19: "TIME", 245: "JSON", 246: "DECIMAL",
    247: "ENUM", 248: "SET", 255: "GEOMETRY",
}  # fmt: skip
"""MySQL's type numbers; types of servers before 5.6 are not included, and so are not judged."""


def shape_of(table: read.ReadTable) -> Shape:
    """The table's shape for the audit."""
    return Shape(table.database, table.table, tuple(map(_column, table.columns)), table.primary_key)


def _column(column: read.ReadColumn) -> Column:
    is_sized = column.code in (16, 254)
    return Column(
        column.name,
        _type(column),
        str(column.size) if is_sized else None,
        column.unsigned,
        column.charset,
        column.labels,
    )


def _type(column: read.ReadColumn) -> str:
    is_binary = column.charset == "binary"
    if column.code == 252:
        return _BLOBS.get(column.size, "") + ("BLOB" if is_binary else "TEXT")
    if column.code in (15, 253):
        return "VARBINARY" if is_binary else "VARCHAR"
    if column.code == 254:
        return "BINARY" if is_binary else "CHAR"
    return _TYPES.get(column.code, f"type {column.code}")


def image_of(image: read.Image, columns: tuple[read.ReadColumn, ...]) -> bytes:
    """Lines ``n=value``, as mysqlbinlog prints them."""
    return b"\n".join(
        b"%d=%s" % (number, printed(value, columns[number - 1])) for number, value in image.items()
    )


def printed(value: object, column: read.ReadColumn) -> bytes:
    """One value."""
    if value is None:
        return b"NULL"
    if value is read.PARTIAL:
        return _PARTIAL
    if value is read.UNKNOWN_VALUE:
        return UNTOLD
    found = _PRINTED.get(column.code, _plain)(value, column)
    return UNTOLD if found is None else found


def _plain(value: Any, _: read.ReadColumn) -> bytes | None:
    return str(value).encode()


def _float(value: Any, _: read.ReadColumn) -> bytes | None:
    return f"{value:g}".encode()


def _double(value: Any, _: read.ReadColumn) -> bytes | None:
    return repr(value).encode()


def _text(value: Any, _: read.ReadColumn) -> bytes | None:
    return _quoted(value)


def _bits(value: Any, _: read.ReadColumn) -> bytes | None:
    return b"b'%s'" % value.encode()


def _set(value: Any, _: read.ReadColumn) -> bytes | None:
    number = sum(1 << bit for bit in value.numbers)
    # As mysqlbinlog prints it: the bytes as they are stored, the least first.
    return b"b'%s'" % "".join(f"{byte:08b}" for byte in number.to_bytes(8, "little")).encode()


def _date(value: date, _: read.ReadColumn) -> bytes | None:
    return f"'{value.isoformat()}'".encode()


def _datetime(value: datetime, column: read.ReadColumn) -> bytes | None:
    text = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
    return f"'{text}{_fraction(value.microsecond, column.size)}'".encode()


def _timestamp(value: datetime, column: read.ReadColumn) -> bytes | None:
    return f"{timegm(value.timetuple())}{_fraction(value.microsecond, column.size)}".encode()


def _time(value: timedelta, column: read.ReadColumn) -> bytes | None:
    sign = "-" if value < timedelta() else ""
    if sign and value.microseconds:
        return None  # it reads the fraction of a negative time as a positive one's
    seconds = abs(value) // timedelta(seconds=1)
    clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"'{clock}{_fraction(value.microseconds, column.size)}'".encode()


def _fraction(microseconds: int, digits: int) -> str:
    return f".{microseconds:06}"[: digits + 1] if digits else ""


def _document(value: read.Document, _: read.ReadColumn) -> bytes | None:
    try:
        document = _json_value(value.value)
    except (UnicodeDecodeError, TypeError):
        return None
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return _quoted(text.encode())


def _json_value(value: object) -> Any:
    """Plain JSON; TypeError for the package's form of an opaque value, which is no text of MySQL's."""
    match value:
        case bytes():
            return value.decode()
        case dict():
            return {key.decode(): _json_value(each) for key, each in value.items()}
        case list():
            return [_json_value(each) for each in value]
        case None | bool() | int() | float():
            return value
    raise TypeError(type(value).__name__)


def _quoted(content: bytes) -> bytes:
    # Line ends separate the values of an image, and quotation marks end a text.
    return b"'%s'" % content.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"'", b"\\'")


_PRINTED: dict[int, Callable[[Any, read.ReadColumn], bytes | None]] = {
    4: _float, 5: _double, 10: _date, 15: _text, 16: _bits, 17: _timestamp, 18: _datetime, 19: _time,
    245: _document, 248: _set, 252: _text, 253: _text, 254: _text,
}  # fmt: skip
