"""Text, binary strings, ENUM and SET.

Invariant: text is decoded by the column's own character set or not at all; bytes are base64; labels
come from the table map that came with the row. If Unicode lacks a character, the text is a
ReplacedText.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.buffer import read_bytes, uint
from connectors.mysql.binlog.table_map import FieldType, MappedColumn
from connectors.mysql.charset.charsets import BINARY, Charsets, TextDecoder, text_decoder
from connectors.mysql.charset.unmapped import ReplacedText, column_decoder
from connectors.mysql.rows.values.shape import Reader


def charset_of(column: MappedColumn, charsets: Charsets) -> str:
    """The character set of a string column; raises UnsupportedEvent if it is unknown."""
    if column.collation is None:
        raise UnsupportedEvent(
            f"the binlog does not state the character set of column {column.name!r}",
            remedy="Run SET GLOBAL binlog_row_metadata = 'FULL' on the server, then restart.",
        )
    try:
        return charsets.name(column.collation)
    except KeyError:
        raise UnsupportedEvent(
            f"column {column.name!r} has collation {column.collation}, which the server does not list"
        ) from None


def decoder_of(column: MappedColumn, charsets: Charsets) -> TextDecoder:
    """The decoder to the text that a client gets; raises UnsupportedEvent if the character set is unknown."""
    return _decoder_of(column, charsets, column_decoder)


def exact_decoder_of(column: MappedColumn, charsets: Charsets) -> TextDecoder:
    """A decoder that raises UnicodeDecodeError for every character that Unicode lacks."""
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


def string(column: MappedColumn, charsets: Charsets) -> Reader:
    """CHAR, VARCHAR, BINARY, VARBINARY, TEXT and BLOB: a length, then the bytes."""
    length_size = _length_size(column)
    if charset_of(column, charsets) != BINARY:
        return _text(length_size, decoder_of(column, charsets))
    padded = column.metadata if column.type == FieldType.STRING else 0
    return _binary(length_size, padded)


def _length_size(column: MappedColumn) -> int:
    if column.type == FieldType.BLOB:
        return column.metadata
    return 1 if column.metadata < 256 else 2


def _text(length_size: int, decode: TextDecoder) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return decode(raw), end

    return read


def _binary(length_size: int, padded: int) -> Reader:
    """BINARY(n) is stored without its zero bytes at the end; ``padded`` is n, or 0."""

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return base64.b64encode(raw.ljust(padded, b"\0")).decode(), end

    return read


def labels_of(column: MappedColumn, charsets: Charsets) -> tuple[str, ...]:
    """The labels of an ENUM or SET as text; raises UnsupportedEvent if the binlog does not contain them."""
    if column.labels is None:
        raise UnsupportedEvent(
            f"the binlog does not hold the labels of column {column.name!r}",
            remedy="Run SET GLOBAL binlog_row_metadata = 'FULL' on the server, then restart.",
        )
    decode = decoder_of(column, charsets)
    return tuple(decode(label) for label in column.labels)


def enum(column: MappedColumn, charsets: Charsets) -> Reader:
    """ENUM: the number of a label from 1; 0 is MySQL's error value, the empty text."""
    size, labels = column.metadata, ("", *labels_of(column, charsets))

    def read(data: bytes, at: int) -> tuple[str, int]:
        return labels[uint(data, at, size)], at + size

    return read


def set_(column: MappedColumn, charsets: Charsets) -> Reader:
    """SET: a bit for each label, joined by commas in the column's order."""
    size, labels = column.metadata, labels_of(column, charsets)

    def read(data: bytes, at: int) -> tuple[str, int]:
        mask = uint(data, at, size)
        if mask >> len(labels):
            raise IndexError(f"a SET of {len(labels)} labels has the bits {mask:#x}")
        held = [label for n, label in enumerate(labels) if mask >> n & 1]
        text = ",".join(held)
        if any(isinstance(label, ReplacedText) for label in held):
            text = ReplacedText(text)
        return text, at + size

    return read
