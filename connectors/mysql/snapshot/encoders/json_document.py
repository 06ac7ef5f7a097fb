"""JSON documents: from the server's text to MySQL's binary form.

Invariant: the reader of documents returns exactly the text that was given: each document is read
back before it is used. Dates, times and bytes become strings of the same text; a number with other
digits than a DOUBLE becomes a DECIMAL.
Source: MySQL's sql-common/json_binary.cc, serialize_json_value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import lru_cache
from struct import Struct
from typing import Any

import orjson

from connectors.mysql.binlog.table_map import FieldType
from connectors.mysql.rows.compiled.json_text import Documents
from connectors.mysql.rows.values import json_binary as plain
from connectors.mysql.snapshot.encoders.numbers import decimal

_INT32, _UINT32 = Struct("<i").pack, Struct("<I").pack
_INT64, _UINT64, _DOUBLE = Struct("<q").pack, Struct("<Q").pack, Struct("<d").pack
_MOST_DIGITS = 65
_MOST_SMALL = 0xFFFF

Entry = tuple[int, "int | bytes"]
"""The type of a value, and the value itself if it fits into a container's entry, else its bytes."""


class _Members(list[tuple[str, Any]]):
    """An object's members in the order of its text."""


class _Decimal(bytes):
    """An opaque DECIMAL: type, length, precision, scale and digits."""

    __slots__ = ()


def encoder() -> Callable[[bytes], bytes]:
    """A function from a document's text to its bytes, with a cache of its own for reading it back."""
    documents = Documents()

    def encode(text: bytes) -> bytes:
        wanted = text.decode()
        raw = binary_document(orjson.loads(text))
        if documents.text(raw) != wanted:
            # A number whose digits a DOUBLE does not have.
            raw = binary_document(_as_written(wanted))
            if documents.text(raw) != wanted:
                raise ValueError("no JSON document in MySQL's form")
        return raw

    return encode


def binary_document(value: Any) -> bytes:
    """The binary form of a document, as json or orjson parses it."""
    kind, word = _entry(value)
    if isinstance(word, int):
        word = word.to_bytes(1 if kind == plain.LITERAL else 2, "little")
    return bytes([kind]) + word


def _as_written(text: str) -> Any:
    """A document that keeps all digits of its numbers."""
    return json.loads(text, parse_int=_whole, parse_float=_fraction, object_pairs_hook=_Members)


def _whole(token: str) -> Any:
    number = int(token)
    return number if -(1 << 63) <= number < 1 << 64 else _decimal(token)


def _fraction(token: str) -> Any:
    number = float(token)
    if number - number == 0 and plain.double_text(number) == token:
        return number
    return _decimal(token)


def _decimal(token: str) -> _Decimal:
    digits, _, part = token.removeprefix("-").partition(".")
    precision = len(digits.lstrip("0")) + len(part)
    if not 0 < precision <= _MOST_DIGITS:
        raise ValueError(f"no DECIMAL has {precision} digits")
    packed = decimal(precision, len(part))(token.encode())
    content = bytes([precision, len(part)]) + packed
    return _Decimal(bytes([FieldType.NEWDECIMAL]) + _length(len(content)) + content)


def _entry(value: Any) -> Entry:
    kind = type(value)
    if kind is str:
        raw = value.encode()
        return plain.STRING, _length(len(raw)) + raw
    if kind is int:
        return _integer(value)
    if kind is float:
        return plain.DOUBLE, _DOUBLE(value)
    if value is None:
        return plain.LITERAL, 0
    if kind is bool:
        return plain.LITERAL, 1 if value else 2
    if kind is dict:
        return _container(tuple(value), value.values())
    if kind is list:
        return _container(None, value)
    if kind is _Members:
        return _container(tuple(name for name, _ in value), [one for _, one in value])
    return plain.OPAQUE, value


def _integer(value: int) -> Entry:
    if -0x8000 <= value < 0x8000:
        return plain.INT16, value & 0xFFFF
    if 0 <= value < 0x1_0000:
        return plain.UINT16, value
    if -0x8000_0000 <= value < 0x8000_0000:
        return plain.INT32, _INT32(value)
    if 0 <= value < 0x1_0000_0000:
        return plain.UINT32, _UINT32(value)
    if value < 1 << 63:
        return plain.INT64, _INT64(value)
    return plain.UINT64, _UINT64(value)


_SHORT = [bytes([size]) for size in range(0x80)]


def _length(size: int) -> bytes:
    """A length in groups of 7 bits, low first."""
    if size < 0x80:
        return _SHORT[size]
    raw = bytearray()
    while size > 0x7F:
        raw.append(size & 0x7F | 0x80)
        size >>= 7
    raw.append(size)
    return bytes(raw)


def _container(names: tuple[str, ...] | None, values: Collection[Any]) -> Entry:
    """An object, or an array if there are no names; in the large format only where the small one ends."""
    count = len(values)
    key_entries, key_bytes = (b"", b"") if names is None else _keys(names)
    at = 4 + 3 * count + len(key_entries) + len(key_bytes)
    words: list[int] = []
    payloads: list[bytes] = []
    for value in values:
        kind: int
        word: int | bytes
        # The most frequent types are handled here: a call for each value would take longer.
        if type(value) is str:
            raw = value.encode()
            size = len(raw)
            kind, word = _STRING, (_SHORT[size] if size < 0x80 else _length(size)) + raw
        elif type(value) is int and -0x8000 <= value < 0x8000:
            words += (_INT16, value & 0xFFFF)
            continue
        else:
            kind, word = _entry(value)
        if isinstance(word, int):
            words += (kind, word)
        else:
            words += (kind, at)
            payloads.append(word)
            at += len(word)
    if at > _MOST_SMALL:
        return _large(names, words, payloads)
    table = _small_entries(count).pack(*words)
    content = b"".join((_SMALL_HEAD(count, at), key_entries, table, key_bytes, *payloads))
    return (plain.SMALL_ARRAY if names is None else plain.SMALL_OBJECT), content


_SMALL_HEAD, _LARGE_HEAD = Struct("<HH").pack, Struct("<II").pack
_STRING, _INT16 = plain.STRING, plain.INT16
_INLINED = set(plain.SMALL.inlined)
_LARGE_INLINED = {plain.INT32, plain.UINT32}


_MOST_REMEMBERED = 64
"""Larger containers are rare, and a cache of them would be large."""


def _small_entries(count: int) -> Struct:
    return _remembered_entries(count) if count <= _MOST_REMEMBERED else _made_entries(count)


def _made_entries(count: int) -> Struct:
    return Struct("<" + "BH" * count)


_remembered_entries = lru_cache(maxsize=None)(_made_entries)


def _keys(names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """The entries of an object's keys, and the keys; the same few recur in every row."""
    return _remembered_keys(names) if len(names) <= _MOST_REMEMBERED else _made_keys(names)


def _made_keys(names: tuple[str, ...], *, large: bool = False) -> tuple[bytes, bytes]:
    raws = [name.encode() for name in names]
    at = 8 + 11 * len(raws) if large else 4 + 7 * len(raws)
    words: list[int] = []
    for raw in raws:
        # The small format is not used if an offset does not fit.
        words += (at if large else at & _MOST_SMALL, len(raw))
        at += len(raw)
    return Struct("<" + ("IH" if large else "HH") * len(raws)).pack(*words), b"".join(raws)


_remembered_keys = lru_cache(maxsize=4096)(_made_keys)


def _large(names: tuple[str, ...] | None, small: list[int], payloads: list[bytes]) -> Entry:
    """A container in the large format; ``small``: type and word of each value in the small one."""
    key_entries, key_bytes = (b"", b"") if names is None else _made_keys(names, large=True)
    count = len(small) // 2
    at = 8 + 5 * count + len(key_entries) + len(key_bytes)
    words: list[int] = []
    following: list[bytes] = []
    rest = iter(payloads)
    for kind, word in zip(small[::2], small[1::2], strict=True):
        if kind in _INLINED:
            words += (kind, word)
            continue
        payload = next(rest)
        if kind in _LARGE_INLINED:
            words += (kind, int.from_bytes(payload, "little"))
        else:
            words += (kind, at)
            following.append(payload)
            at += len(payload)
    table = Struct("<" + "BI" * count).pack(*words)
    content = b"".join((_LARGE_HEAD(count, at), key_entries, table, key_bytes, *following))
    return (plain.LARGE_ARRAY if names is None else plain.LARGE_OBJECT), content
