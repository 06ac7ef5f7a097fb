"""Comparison, by type, of a value on the wire with the value that a witness read, as mysqlbinlog prints it.

Invariant: both sides are converted to one form by rules written here from docs/wire.md and the
program's output, not by the decoder that is audited. What cannot be compared is named, never
skipped.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from app.audit.table_shape import BinlogColumn, decoder_of

Same = Callable[[bytes, Any], bool]
"""Whether a printed value equals the wire's; neither is NULL. Raises UnicodeDecodeError if it is not text."""

UNTOLD = b"!! untold"
"""Replaces a value that is not NULL and that the witness cannot return exactly."""
_ESCAPED = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"b": b"\b", b"f": b"\f"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def comparison(column: BinlogColumn) -> Same | None:
    """Return the comparison of a column's values; None if they cannot be compared."""
    kind = column.type
    if kind in _INTEGERS:
        return _unsigned if column.unsigned else _signed
    if kind in _TEXTS:
        decode = decoder_of(column.charset)
        return None if decode is None else _text(decode)
    if kind in _PLAINLY:
        return _PLAINLY[kind]
    if kind == "BINARY":
        return _padded(int(column.size or 1))
    if kind == "BIT":
        return _bits(-(-int(column.size or 1) // 8))
    if kind in ("ENUM", "SET") and column.labels is not None:
        if any("\ufffd" in label for label in column.labels):
            return None  # labels of a character set that is not read here
        return _label(column.labels) if kind == "ENUM" else _labels(column.labels)
    return None


def unquoted(printed: bytes) -> bytes:
    """The bytes of a printed text."""
    inner = printed[1:-1]
    if b"\\" not in inner:
        return inner
    return _ESCAPED.sub(_unescape, inner)


def _unescape(found: re.Match[bytes]) -> bytes:
    what = found[1]
    if len(what) == 3:
        return bytes([int(what[1:], 16)])
    return _PLAIN.get(what, what)


def _signed(printed: bytes, value: Any) -> bool:
    return type(value) is int and int(printed.partition(b" ")[0]) == value


def _unsigned(printed: bytes, value: Any) -> bool:
    number, _, more = printed.partition(b" (")
    return type(value) is int and int(more[:-1] if more else number) == value


def _year(printed: bytes, value: Any) -> bool:
    """The program prints MySQL's year 0 as 1900, which no column can hold."""
    return type(value) is int and int(printed) == (value or 1900)


def _decimal(printed: bytes, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        ours, theirs = Decimal(printed.decode()), Decimal(value)
    except InvalidOperation:
        return False
    return ours == theirs and ours.as_tuple().exponent == theirs.as_tuple().exponent


def _float(printed: bytes, value: Any) -> bool:
    """The program prints six digits of a float."""
    if not isinstance(value, float | int):
        return False
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    return float(f"{single:g}") == float(printed)


def _double(printed: bytes, value: Any) -> bool:
    return isinstance(value, float | int) and float(printed) == value


def _date(printed: bytes, value: Any) -> bool:
    return isinstance(value, str) and unquoted(printed).decode().replace(":", "-") == value


def _datetime(printed: bytes, value: Any) -> bool:
    text = unquoted(printed).decode()
    return isinstance(value, str) and _written(text, zone="") == value


def _timestamp(printed: bytes, value: Any) -> bool:
    seconds, point, fraction = printed.decode().partition(".")
    if int(seconds) == 0 and not fraction.strip("0"):
        text = f"0000-00-00 00:00:00{point}{fraction}"
    else:
        moment = _EPOCH + timedelta(seconds=int(seconds))
        text = f"{moment:%Y-%m-%d %H:%M:%S}{point}{fraction}"
    return isinstance(value, str) and _written(text, zone="Z") == value


def _written(text: str, *, zone: str) -> str:
    """A time in the wire's form; a zero, partial or impossible date stays as MySQL writes it."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # The year 0, which Python lacks, is no leap year in MySQL.
    if not (1 <= month <= _MONTHS and 1 <= day <= monthrange(year or 1, month)[1]):
        return text
    return text.replace(" ", "T") + zone


_MONTHS = 12


def _time(printed: bytes, value: Any) -> bool:
    return isinstance(value, str) and unquoted(printed).decode() == value


def _blob(printed: bytes, value: Any) -> bool:
    return isinstance(value, str) and base64.b64encode(unquoted(printed)).decode() == value


def _padded(size: int) -> Same:
    def same(printed: bytes, value: Any) -> bool:
        content = unquoted(printed).ljust(size, b"\0")
        return isinstance(value, str) and base64.b64encode(content).decode() == value

    return same


def _text(decode: Callable[[bytes], str]) -> Same:
    """Return a comparison that raises UnicodeDecodeError for bytes that are not text."""

    def same(printed: bytes, value: Any) -> bool:
        return isinstance(value, str) and decode(unquoted(printed)) == value

    return same


def _bits(size: int) -> Same:
    def same(printed: bytes, value: Any) -> bool:
        content = int(printed[2:-1], 2).to_bytes(size, "big")
        return isinstance(value, str) and base64.b64encode(content).decode() == value

    return same


def _label(labels: tuple[str, ...]) -> Same:
    def same(printed: bytes, value: Any) -> bool:
        number = int(printed)
        return bool((labels[number - 1] if 0 < number <= len(labels) else "") == value)

    return same


def _labels(labels: tuple[str, ...]) -> Same:
    def same(printed: bytes, value: Any) -> bool:
        # The program prints the bytes as stored, the least significant first.
        digits = printed[2:-1]
        stored = b"".join(digits[at : at + 8] for at in range(len(digits) - 8, -1, -8))
        number = int(stored, 2)
        return bool(",".join(each for bit, each in enumerate(labels) if number >> bit & 1) == value)

    return same


def _document(printed: bytes, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        # Bytes in a document of MySQL 5.7, which need not be valid text, are printed as they are.
        document, text = _read(value), unquoted(printed).decode(errors="surrogateescape")
        # The program prints a document that is only a string without its quotation marks.
        return _is_same(text if isinstance(document, str) else _read(text), document)
    except ValueError:
        return False


def _read(text: str) -> Any:
    return json.loads(text, parse_float=lambda number: float(number))


def _is_same(theirs: Any, ours: Any) -> bool:
    """Whether two documents are equal; unlike in Python, true, 1 and 1.0 are three values."""
    match theirs, ours:
        case dict(), dict():
            return theirs.keys() == ours.keys() and all(
                _is_same(theirs[key], ours[key]) for key in theirs
            )
        case list(), list():
            return len(theirs) == len(ours) and all(map(_is_same, theirs, ours))
        case str(), str():
            return theirs == ours or _is_bytes(theirs, ours)
    return type(theirs) is type(ours) and bool(theirs == ours)


def _is_bytes(theirs: str, ours: str) -> bool:
    """Whether ours is MySQL 5.7's Base64 form of bytes that mysqlbinlog, from MySQL 9 on, prints as text."""
    if not ours.startswith(_OPAQUE):
        return False
    content = base64.b64decode("".join(ours[len(_OPAQUE) :].split()), validate=True)
    return theirs.encode(errors="surrogateescape") == content


_OPAQUE = "base64:type253:"
"""MySQL 5.7's prefix of a binary string, with VAR_STRING's type number. Later servers use VARCHAR's, 15."""
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"})
_TEXTS = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_PLAINLY: dict[str, Same] = {
    "YEAR": _year,
    "DECIMAL": _decimal,
    "FLOAT": _float,
    "DOUBLE": _double,
    "DATE": _date,
    "DATETIME": _datetime,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "VARBINARY": _blob,
    "TINYBLOB": _blob,
    "BLOB": _blob,
    "MEDIUMBLOB": _blob,
    "LONGBLOB": _blob,
    "JSON": _document,
}
