"""Decoding the rows events of one table version with generated code.

The law: an image is read to its last byte or refused. Rows whose images lack columns, or hold only what changed
in a document, are rare and go through ``rows``, which knows what absent means.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from connectors.errors import MalformedEvent, UnsupportedEvent
from connectors.mysql.buffer import bits, packed, taken, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.compiled.fields import field_of
from connectors.mysql.compiled.generate import ImageFunction, Table, image_function
from connectors.mysql.rows import ABSENT, PARTIAL, UPDATES, V1, WRITES, Image, RowChange, RowDecoder
from connectors.mysql.table_map import TableMap

_MOST_PATTERNS = 32
"""Patterns of NULLs that get a function of their own; the others share one that looks at each bit."""


class RowText(NamedTuple):
    """A changed row as JSON text: no ``before`` for an insert, no ``after`` for a delete.

    Keys are the JSON of the key's columns, None where the table has no key or there is no such image.
    """

    before: str | None
    after: str | None
    old_key: str | None
    new_key: str | None
    absent: str | None = None
    """A JSON list of the columns that no image holds."""


class CompiledDecoder:
    """Decodes rows events for the table as one TABLE_MAP described it."""

    def __init__(self, table_map: TableMap, charsets: Charsets) -> None:
        self._partial = RowDecoder(table_map, charsets)
        self._name = f"{table_map.database}.{table_map.table}"
        try:
            fields = [field_of(column, charsets) for column in table_map.columns]
        except UnsupportedEvent as error:
            raise UnsupportedEvent(error.detail, table=self._name, remedy=error.advice) from None
        self._names = [column.name or "" for column in table_map.columns]
        self._key = table_map.primary_key or ()
        self._table = Table(names=self._names, fields=fields, key=self._key)
        self._by_nulls: dict[bytes, ImageFunction] = {}
        self._any: ImageFunction | None = None
        count = len(fields)
        self._bitmap_size = (count + 7) // 8
        self._all = ((1 << count) - 1).to_bytes(self._bitmap_size, "little")

    def rows(self, event_type: int, body: bytes) -> list[RowText]:
        """All rows of one event's body."""
        return list(self.decode(event_type, body))

    def decode(self, event_type: int, body: bytes) -> Iterator[RowText]:
        """The rows of one event's body, in order; raise MalformedEvent where the bytes do not fit."""
        try:
            yield from self._rows(event_type, body)
        except (IndexError, ValueError, KeyError, struct.error) as error:
            raise MalformedEvent(f"its rows cannot be read: {error}", table=self._name) from error

    def _rows(self, event_type: int, body: bytes) -> Iterator[RowText]:
        at = 8 if event_type in V1 else 8 + uint(body, 8, 2)
        count, at = packed(body, at)
        if count != len(self._names):
            raise ValueError(f"{count} columns, the table map has {len(self._names)}")
        update = event_type in UPDATES
        bitmaps, at = taken(body, at, self._bitmap_size * (2 if update else 1))
        if event_type == PARTIAL or not self._is_full(bitmaps):
            for change in self._partial.decode(event_type, body):
                yield self._from_images(change)
            return
        insert = event_type in WRITES
        while at < len(body):
            image, key, at = self._image(body, at)
            if insert:
                yield RowText(None, image, None, key)
            elif update:
                after, new_key, at = self._image(body, at)
                yield RowText(image, after, key, new_key)
            else:
                yield RowText(image, None, key, None)

    def _is_full(self, bitmaps: bytes) -> bool:
        size, count = self._bitmap_size, len(self._names)
        return all(all(bits(bitmaps[n : n + size], count)) for n in range(0, len(bitmaps), size))

    def _image(self, body: bytes, at: int) -> tuple[str, str | None, int]:
        values = at + self._bitmap_size
        made = self._by_nulls.get(body[at:values])
        if made is not None:
            return made(body, values)
        if len(self._by_nulls) < _MOST_PATTERNS:
            nulls, _ = taken(body, at, self._bitmap_size)
            made = image_function(self._table, bits(nulls, len(self._names)))
            self._by_nulls[nulls] = made
            return made(body, values)
        if self._any is None:
            self._any = image_function(self._table, None)
        return self._any(body, at)

    def _from_images(self, change: RowChange) -> RowText:
        """A row of which not all columns are in the binlog."""
        before, after = _completed(change)
        return RowText(
            self._object(before),
            self._object(after),
            self._key_of(before),
            self._key_of(after),
            self._absent(before if after is None else after),
        )

    def _object(self, image: Image | None) -> str | None:
        if image is None:
            return None
        held = zip(self._names, image, strict=True)
        return _dumped({name: value for name, value in held if value is not ABSENT})

    def _key_of(self, image: Image | None) -> str | None:
        if image is None or not self._key:
            return None
        key = {self._names[index]: image[index] for index in self._key}
        if ABSENT in key.values():
            raise UnsupportedEvent(
                "a row image lacks its primary key",
                table=self._name,
                remedy="Run SET PERSIST binlog_row_image = 'FULL' on the server, for all sessions.",
            )
        return _dumped(key)

    def _absent(self, image: Image | None) -> str | None:
        held = zip(self._names, image or (), strict=True)
        absent = [name for name, value in held if value is ABSENT]
        return _dumped(absent) if absent else None


def _completed(change: RowChange) -> tuple[Image | None, Image | None]:
    """An after image lacks columns that did not change; they are as they were before."""
    before, after = change.before, change.after
    if before is None or after is None or ABSENT not in after:
        return before, after
    return before, tuple(
        old if new is ABSENT else new for old, new in zip(before, after, strict=True)
    )


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()
