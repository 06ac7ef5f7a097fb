"""Decoder of the row images of one version of a table.

Invariant: an image is read to its last byte or refused; a column that the image does not contain is ABSENT,
which is not NULL. A column's rule is applied once to each value, in images and in keys alike, in either
decoder; NULL and columns that an image lacks are left unchanged. Source: MySQL's
libs/mysql/binlog/event/rows_event.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from connectors.errors import MalformedEvent, RowUnreadable, UnsupportedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.buffer import bits, packed, read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.types.json_diff import patched
from connectors.mysql.types.registry import FieldType, reader_for

Value = str | int | float | None
"""A value as in JSON; None is null."""


class ColumnRule(Protocol):
    """A rule; it is picklable, for decoder processes."""

    def __call__(self, value: Value) -> Value:
        """The replacement of a value, always the same for the same value."""


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""The value of a column that a partial row image does not contain."""

Image = tuple[Any, ...]
"""One value for each column of the table, in order."""

V1 = {EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1}
WRITES = {EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS}
UPDATES = {EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS, EventType.PARTIAL_UPDATE_ROWS}
PARTIAL = EventType.PARTIAL_UPDATE_ROWS
ROWS_EVENTS = V1 | {EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, PARTIAL}
"""The event types that a RowDecoder reads."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One changed row: no ``before`` for an insert, no ``after`` for a delete."""

    before: Image | None
    after: Image | None


def ruled(image: Image, rules: Mapping[int, Callable[[Any], Any]]) -> Image:
    """Return an image with its column rules applied; ``rules`` is by column index.

    Rules are applied last, because the comparison with the before image and the search for characters
    that Unicode lacks need the binlog's values.
    """
    if not rules:
        return image
    return tuple(
        value if value is None or value is ABSENT or index not in rules else rules[index](value)
        for index, value in enumerate(image)
    )


class RowDecoder:
    """Decodes rows events for the table as one TABLE_MAP described it."""

    def __init__(self, table_map: TableMap, charsets: Charsets) -> None:
        self._name = f"{table_map.database}.{table_map.table}"
        self._table_name = (table_map.database, table_map.table)
        if any(column.name is None for column in table_map.columns):
            raise UnsupportedEvent(
                "the binlog does not hold the columns' names",
                table=self._name,
                remedy="Run SET GLOBAL binlog_row_metadata = 'FULL' on the server, then restart.",
            )
        self._json = [
            n for n, column in enumerate(table_map.columns) if column.type == FieldType.JSON
        ]
        try:
            self._readers = [reader_for(column, charsets) for column in table_map.columns]
        except UnsupportedEvent as error:
            raise UnsupportedEvent(error.detail, table=self._name, remedy=error.advice) from None

    def decode(self, event_type: int, body: bytes) -> Iterator[RowChange]:
        """The rows of one event's body, in order; raise MalformedEvent if the bytes do not fit."""
        try:
            yield from self._rows(event_type, body)
        except (IndexError, ValueError, KeyError, struct.error) as error:
            raise MalformedEvent(f"its rows cannot be read: {error}", table=self._name) from error

    def columns_before(self, event_type: int, body: bytes) -> list[bool]:
        """The columns in the first image of each row."""
        return self._head(event_type, body)[0]

    def _head(self, event_type: int, body: bytes) -> tuple[list[bool], int]:
        """The columns in the first image, and the offset of the next field."""
        at = 8 if event_type in V1 else 8 + uint(body, 8, 2)
        count, at = packed(body, at)
        if count != len(self._readers):
            raise ValueError(f"{count} columns, the table map has {len(self._readers)}")
        first, at = read_bytes(body, at, (count + 7) // 8)
        return bits(first, count), at

    def _rows(self, event_type: int, body: bytes) -> Iterator[RowChange]:
        first_columns, at = self._head(event_type, body)
        count, second_columns = len(first_columns), None
        if event_type in UPDATES:
            second, at = read_bytes(body, at, (count + 7) // 8)
            second_columns = bits(second, count)
        if not any(first_columns) and not any(second_columns or ()):
            raise UnsupportedEvent(
                "rows of which no column is in the binlog, so they cannot be distinguished",
                table=self._name,
                remedy="Run SET GLOBAL binlog_row_image = 'FULL' on the server, for all sessions.",
            )
        while at < len(body):
            image, at = self._image(body, at, first_columns)
            if second_columns is not None:
                patches: frozenset[int] = frozenset()
                if event_type == PARTIAL:
                    patches, at = partial_columns(body, at, self._json)
                after, at = self._image(body, at, second_columns, before=image, patches=patches)
                yield RowChange(image, after)
            elif event_type in WRITES:
                yield RowChange(None, image)
            else:
                yield RowChange(image, None)

    def _image(
        self,
        body: bytes,
        at: int,
        present: list[bool],
        *,
        before: Image = (),
        patches: frozenset[int] = frozenset(),
    ) -> tuple[Image, int]:
        """One image; a column of ``patches`` contains only the changes to its value in ``before``."""
        held = sum(present)
        nulls, at = read_bytes(body, at, (held + 7) // 8)
        values: list[Any] = []
        n = 0
        for reader, is_present in zip(self._readers, present, strict=True):
            if not is_present:
                values.append(ABSENT)
                continue
            if nulls[n >> 3] >> (n & 7) & 1:
                values.append(None)
            elif len(values) in patches:
                diffs, at = read_bytes(body, at + _DIFFS_LENGTH, uint(body, at, _DIFFS_LENGTH))
                values.append(self._patched(before[len(values)], diffs))
            else:
                value, at = reader(body, at)
                values.append(value)
            n += 1
        return tuple(values), at

    def _patched(self, document: Any, diffs: bytes) -> str:
        if not isinstance(document, str):
            raise RowUnreadable.of(
                self._table_name,
                "a partial update of a JSON column whose document before it is not in the binlog "
                f"(binlog_row_value_options = PARTIAL_JSON); {_FULL}",
            )
        return patched(document, diffs)


_DIFFS_LENGTH = 4
_FULL = "the server needs binlog_row_image = FULL, for all sessions"
_PARTIAL_JSON = 1


def partial_columns(body: bytes, at: int, json_columns: list[int]) -> tuple[frozenset[int], int]:
    """Return the JSON columns of which an after image contains only changes, and the image's offset.

    The event has a bit for each JSON column of the table, including JSON columns that the image lacks.
    """
    options, at = packed(body, at)
    if not options & _PARTIAL_JSON:
        return frozenset(), at
    raw, at = read_bytes(body, at, (len(json_columns) + 7) // 8)
    flags = bits(raw, len(json_columns))
    return frozenset(n for n, flag in zip(json_columns, flags, strict=True) if flag), at
