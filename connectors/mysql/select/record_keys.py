"""Keys of published records as SQL expressions, by which a SELECT finds the source's rows.

Invariant: at the server, the expression of a published value equals every value of the column that is published
in this form. If this is not certain of a value, the value has no expression.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

from connectors.errors import SnapshotUnsupported
from connectors.mysql.charsets import Charsets, text_decoder, text_encoder
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.schema.table_map_completion import BINARY_COLLATION
from connectors.mysql.select.described_table import described_table
from connectors.mysql.types.registry import MappedColumn, binlog_type

_UNICODE = frozenset(
    {"ascii", "utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32", "gb18030"}
)
"""Character sets that encode a text in only one way, so that the server's own conversion suffices."""
_LONGER = {"ujis": b"\x8f", "eucjpms": b"\x8f"}
"""By character set: the byte that, before two other bytes, forms one character with them."""


class RecordKeys:
    """The keys of one table's records."""

    def __init__(
        self, name: TableName, table: Table, charsets: Charsets, *, server: Server
    ) -> None:
        """Raise SnapshotUnsupported for a table whose rows cannot be read exactly."""
        mapped = described_table(name, table, charsets, server=server)
        columns = {column.name: column for column in mapped.columns}
        self._key = [columns[one] for one in table.primary_key]
        self._name, self._charsets = ".".join(name), charsets

    def literals(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the expressions of a key; ``values``: as published, by the columns' own names.

        Raise SnapshotUnsupported if a value has no expression.
        """
        return tuple(self._literal(column, values[column.name or ""]) for column in self._key)

    def _literal(self, column: MappedColumn, value: Any) -> str:
        try:
            return _literal(column, value, self._charsets)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error):
            # The text of the original error is omitted, because it may contain the value.
            raise SnapshotUnsupported(
                f"a key has a value of column {column.name!r} that cannot be looked for exactly",
                table=self._name,
            ) from None


def _literal(column: MappedColumn, value: Any, charsets: Charsets) -> str:
    known = binlog_type(column.type)
    if known is not None and known.published_literal is not None:
        return known.published_literal(column, value)
    collation = column.collation or BINARY_COLLATION
    if collation == BINARY_COLLATION:
        return f"X'{base64.b64decode(value, validate=True).hex()}'"
    return _text(value, charsets.name(collation))


def _text(value: str, charset: str) -> str:
    if charset in _UNICODE:
        return f"_utf8mb4 X'{value.encode().hex()}'"
    encode = text_encoder(charset)
    if encode is None or not ambiguous(charset).isdisjoint(value):
        raise ValueError("several values of the column may be published so")
    return f"_{charset} X'{encode(value).hex()}'"


@lru_cache(maxsize=64)
def ambiguous(charset: str) -> frozenset[str]:
    """Return the characters of a character set that several byte sequences encode."""
    decode = text_decoder(charset)
    assert decode is not None
    found = Counter[str]()
    for raw in _forms(charset):
        try:
            text = decode(raw)
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            found[text] += 1
    return frozenset(character for character, forms in found.items() if forms > 1)


def _forms(charset: str) -> Iterator[bytes]:
    """Yield the byte sequences that may encode one character."""
    yield from map(bytes, product(range(256)))
    high, every = range(0x80, 0x100), range(0x30, 0x100)
    yield from map(bytes, product(high, every))
    if (before := _LONGER.get(charset)) is not None:
        yield from (before + bytes(pair) for pair in product(high, high))
