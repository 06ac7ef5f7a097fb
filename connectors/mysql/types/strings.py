"""Text and bytes: CHAR to LONGTEXT, BINARY to LONGBLOB, and MariaDB's compressed columns and addresses.

Invariant: text is decoded by the column's own character set or not at all; bytes are base64. If Unicode lacks a
character, the text is a ReplacedText. A compressed value is never unpacked beyond its announced size.
Source: MariaDB's sql/field.cc, Field_longstr::uncompress, and sql/field_comp.cc.
"""

from __future__ import annotations

import base64
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

from connectors.errors import UnsupportedEvent
from connectors.mysql.buffer import inflated, read_bytes, uint
from connectors.mysql.charsets import BINARY, Charsets, TextDecoder, column_decoder, text_decoder
from connectors.mysql.server_version import Version
from connectors.mysql.types.registry import (
    BinlogType,
    Comparable,
    Field,
    FieldType,
    Form,
    Kind,
    Layout,
    Listed,
    MappedColumn,
    Modes,
    Reader,
    SqlType,
    by_metadata,
    charset_of,
    printed_as,
    register,
    sized,
    within,
)

_T = FieldType


def decoder_of(column: MappedColumn, charsets: Charsets) -> TextDecoder:
    """Return a decoder to the text that a client gets; raise UnsupportedEvent for unknown character sets."""
    return _decoder_of(column, charsets, column_decoder)


def exact_decoder_of(column: MappedColumn, charsets: Charsets) -> TextDecoder:
    """Return a decoder that raises UnicodeDecodeError for every character that Unicode lacks."""
    return _decoder_of(column, charsets, text_decoder)


def _decoder_of(
    column: MappedColumn, charsets: Charsets, make: Callable[[str], TextDecoder | None]
) -> TextDecoder:
    charset = charset_of(column, charsets)
    decode = make("utf8mb4" if charset == BINARY else charset)
    if decode is None:
        raise UnsupportedEvent(
            f"column {column.name!r} has character set {charset}, which has no exact decoder yet",
            remedy="Convert the column to utf8mb4, or leave the table out with a filter.",
        )
    return decode


def _reader(column: MappedColumn, charsets: Charsets) -> Reader:
    """A length, then the bytes."""
    _, length_size = _extent(column)
    if charset_of(column, charsets) != BINARY:
        return _text_reader(length_size, decoder_of(column, charsets))
    return _binary_reader(length_size, _padded(column))


def _extent(column: MappedColumn) -> tuple[int, int]:
    is_blob = column.type in (_T.BLOB, _T.BLOB_COMPRESSED)
    return by_metadata(column.metadata) if is_blob else _by_size(column.metadata)


def _by_size(metadata: int) -> tuple[int, int]:
    """The extent of values whose metadata is the maximum size of a value."""
    return 0, 1 if metadata < 256 else 2


def _padded(column: MappedColumn) -> int:
    """The n of a BINARY(n), which is stored without the zero bytes at its end; 0 for other types."""
    return column.metadata if column.type == _T.STRING else 0


def _text_reader(length_size: int, decode: TextDecoder) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return decode(raw), end

    return read


def _binary_reader(length_size: int, padded: int) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return base64.b64encode(raw.ljust(padded, b"\0")).decode(), end

    return read


def _field(column: MappedColumn, charsets: Charsets) -> Field:
    _, length_size = _extent(column)
    charset = charset_of(column, charsets)
    if charset == BINARY:
        padded = _padded(column)
        raw = f'$a.ljust({padded}, b"\\0")' if padded else "$a"
        return Field(value=f"base64({raw}, newline=False).decode()", length_size=length_size)
    if charset in ("utf8", "utf8mb3", "utf8mb4"):
        return Field(value="$a.decode()", length_size=length_size)
    return Field(value="$n($a)", length_size=length_size, bound=exact_decoder_of(column, charsets))


_PLAIN, _ZLIB = 0x00, 0x80
_METHOD, _WITHOUT_HEAD, _LENGTH_SIZE = 0xF0, 0x08, 0x07


def _compressed(column: MappedColumn, charsets: Charsets) -> Reader:
    """A length, a head byte, then plain or zlib bytes."""
    _, length_size = _extent(column)
    binary = charset_of(column, charsets) == BINARY
    decode = decoder_of(column, charsets)

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        value = unpacked(raw)
        return base64.b64encode(value).decode() if binary else decode(value), end

    return read


def unpacked(raw: bytes) -> bytes:
    """Return the value in the bytes of a compressed column; the empty value has no head."""
    if not raw:
        return raw
    head = raw[0]
    if head & _METHOD == _PLAIN:
        return raw[1:]
    if head & _METHOD != _ZLIB:
        raise UnsupportedEvent(
            f"a compressed column with the head {head:#04x}, which is not zlib's"
        )
    size, at = read_bytes(raw, 1, head & _LENGTH_SIZE)
    return inflated(raw[at:], int.from_bytes(size, "big"), raw=bool(head & _WITHOUT_HEAD))


def _text(column: MappedColumn, charsets: Charsets) -> str:
    charset = charset_of(column, charsets)
    is_char = column.type == _T.STRING
    # One byte of the size of a compressed value is its head.
    size = column.metadata - (column.type == _T.VARCHAR_COMPRESSED)
    if charset == BINARY:
        return f"{'binary' if is_char else 'varbinary'}({size})"
    return f"{'char' if is_char else 'varchar'}({size // charsets.width(charset)})"


_SIZES = {1: "tiny", 2: "", 3: "medium", 4: "long"}
TEXTS, BLOBS = (
    {f"{size}{of}": (1 << 8 * length) - 1 for length, size in _SIZES.items()}
    for of in ("text", "blob")
)
"""The TEXT and BLOB types, each with the maximum size of a value in bytes."""


def _blob_text(column: MappedColumn, charsets: Charsets) -> str:
    is_binary = charset_of(column, charsets) == BINARY
    return _SIZES[column.metadata] + ("blob" if is_binary else "text")


_STRINGS = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.BLOB, 249, 250, 251})
"""Types whose values are bytes; a result set may describe a column of one of them as any other.

The numbers 249, 250 and 251 are TINYBLOB, MEDIUMBLOB and LONGBLOB."""


def _string(code: FieldType) -> BinlogType:
    is_compressed = code == _T.VARCHAR_COMPRESSED
    return BinlogType(
        code=code,
        reader=_compressed if is_compressed else _reader,
        field=None if is_compressed else _field,
        extent=_by_size,
        metadata_size=2,
        listed=Listed.MARIADB_TEXTS if is_compressed else Listed.TEXTS,
        text=_text,
        has_charset=True,
        packet_types=_STRINGS,
        packet_image=None if is_compressed else sized,
    )


def _blob(code: FieldType) -> BinlogType:
    is_compressed = code == _T.BLOB_COMPRESSED
    return BinlogType(
        code=code,
        reader=_compressed if is_compressed else _reader,
        field=None if is_compressed else _field,
        extent=by_metadata,
        metadata_size=1,
        is_possible=within(1, 4),
        listed=Listed.MARIADB_TEXTS if is_compressed else Listed.TEXTS,
        is_blob=True,
        text=_blob_text,
        has_charset=True,
        packet_types=_STRINGS,
        packet_image=None if is_compressed else sized,
    )


# --- names, and records in other formats ------------------------------------------------------------------


_SYNONYMS = {
    "char": "character, nchar, national char, national character",
    "varchar": "varcharacter, char varying, character varying, nvarchar, nchar varchar, nchar varcharacter, "
    "nchar varying, national varchar, national varcharacter, national char varying, national character varying",
    "mediumtext": "long, long varchar, long varcharacter, long char varying, long character varying",
    "mediumblob": "long varbinary",
}


def _synonyms(name: str) -> tuple[str, ...]:
    return tuple(_SYNONYMS[name].split(", ")) if name in _SYNONYMS else ()


def _text_of(name: str, jdbc: int, layout: Callable[[Kind, bool], Layout | None]) -> SqlType:
    return SqlType(
        name=name,
        synonyms=_synonyms(name),
        layout=layout,
        counts_characters=name in _SIZED,
        form="text",
        comparable=Comparable.TEXT,
        jdbc=jdbc,
    )


_SIZED = ("char", "varchar", "binary", "varbinary")


def _connect_bytes(_kind: Kind, _nullable: bool, modes: Modes) -> Form:
    if modes.binary == "hex":
        return Form({"type": "string"}, lambda value: base64.b64decode(value).hex())
    if modes.binary == "base64-url-safe":
        return Form({"type": "string"}, lambda value: value.replace("+", "-").replace("/", "_"))
    return Form({"type": "string" if modes.binary == "base64" else "bytes"})


def latin_text(raw: bytes) -> str:
    """Return bytes as Canal writes them: as text in ISO 8859-1."""
    return raw.decode("latin-1")


def _bytes_of_canal(value: Any) -> str:
    return latin_text(base64.b64decode(value))


def _bytes_of_text(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode()


def _bytes_of(name: str, layout: Callable[[Kind, bool], Layout | None]) -> SqlType:
    return SqlType(
        name=name,
        synonyms=_synonyms(name),
        layout=layout,
        counts_characters=name in _SIZED,
        form="bytes",
        avro=lambda _: "bytes",
        avro_value=lambda _: base64.b64decode,
        connect=_connect_bytes,
        connect_modes=lambda _kind, _modes: ("binary",),
        jdbc=2004,
        canal_text=lambda _: _bytes_of_canal,
        canal_value=lambda _: _bytes_of_text,
    )


def _of_size(code: FieldType) -> Callable[[Kind, bool], Layout]:
    return lambda kind, _mariadb: (code, kind.size)


def _of_length(length_size: int) -> Callable[[Kind, bool], Layout]:
    return lambda _kind, _mariadb: (_T.BLOB, length_size)


_ADDRESSES = (("uuid", 16, (10, 7, 1)), ("inet6", 16, (10, 5, 0)), ("inet4", 4, (10, 10, 1)))
ADDRESSES = {name: size for name, size, _ in _ADDRESSES}
"""MariaDB's types whose values are bytes in the binlog, each with its size in bytes."""


def _address(name: str, size: int, version: Version) -> SqlType:
    """A type of MariaDB that is BINARY on the wire, so that no record has its name."""
    return SqlType(
        name=name,
        since=(None, version),
        printed=printed_as(name),
        layout=lambda _kind, mariadb: (_T.STRING, size) if mariadb else None,
        form="bytes",
    )


register(
    *map(_string, (_T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.VARCHAR_COMPRESSED)),
    *map(_blob, (_T.BLOB, _T.BLOB_COMPRESSED)),
    named=(
        _text_of("char", 1, _of_size(_T.STRING)),
        _text_of("varchar", 12, _of_size(_T.VARCHAR)),
        _bytes_of("binary", _of_size(_T.STRING)),
        _bytes_of("varbinary", _of_size(_T.VARCHAR)),
        *(_text_of(f"{size}text", 2005, _of_length(length)) for length, size in _SIZES.items()),
        *(_bytes_of(f"{size}blob", _of_length(length)) for length, size in _SIZES.items()),
        *(_address(*one) for one in _ADDRESSES),
    ),
    names={"base64": b2a_base64},
)
