"""Counting the rows of an event without decoding them, for uncaptured tables.

Invariant: every value has a fixed size or begins with its length. Counting therefore needs neither character
sets nor labels, and the content of an excluded table can never stop a destination. Code is generated for
each pattern of NULLs, and counts as ``row_count`` does, which also handles unusual events; a walk ends
exactly at its event's end, or is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.mariadb_events import plain_rows
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.buffer import bits, packed, read_bytes, uint
from connectors.mysql.rows.decoder import PARTIAL, UPDATES, V1, partial_columns
from connectors.mysql.types.registry import FieldType, extent


def row_count(table_map: TableMap, event_type: int, body: bytes) -> int:
    """The number of rows in an event, also a compressed one; an update's two images are one row."""
    return len(_row_boundaries(table_map, event_type, body, plain=False)) - 1


def row_boundaries(table_map: TableMap, event_type: int, body: bytes) -> list[int]:
    """The start of a plain event's first row, and the end of each row; raise MalformedEvent."""
    return _row_boundaries(table_map, event_type, body, plain=True)


def _row_boundaries(table_map: TableMap, event_type: int, body: bytes, *, plain: bool) -> list[int]:
    try:
        if not plain:
            event_type, body = plain_rows(event_type, body)
        return list(_walk(table_map, event_type, body))
    except (IndexError, ValueError, KeyError, struct.error) as error:
        name = f"{table_map.database}.{table_map.table}"
        raise MalformedEvent(f"its rows cannot be counted: {error}", table=name) from error


def changed_columns(table_map: TableMap, event_type: int, body: bytes, number: int) -> set[int]:
    """Return the columns whose bytes differ between the two images of a plain update's row.

    Columns that one of the images lacks are ignored. ``number`` counts rows from 0. Raise MalformedEvent.
    """
    at = _row_boundaries(table_map, event_type, body, plain=True)[number]
    extents = [extent(column) for column in table_map.columns]
    values: list[dict[int, bytes | None]] = []
    for present in _present(event_type, body)[0]:
        if values and event_type == PARTIAL:
            _, at = partial_columns(body, at, _documents(table_map))
        columns = [n for n, is_present in enumerate(present) if is_present]
        nulls = bits(body[at : at + (len(columns) + 7) // 8], len(columns))
        image: dict[int, bytes | None] = {}
        start = at + (len(columns) + 7) // 8
        for column, is_null in zip(columns, nulls, strict=True):
            size, length_size = (0, 0) if is_null else extents[column]
            end = (
                start + size + (length_size + uint(body, start, length_size) if length_size else 0)
            )
            image[column] = None if is_null else body[start:end]
            start = end
        at = start
        values.append(image)
    before, after = values
    return {column for column in before.keys() & after.keys() if before[column] != after[column]}


def _walk(table_map: TableMap, event_type: int, body: bytes) -> Iterator[int]:
    extents = [extent(column) for column in table_map.columns]
    documents = _documents(table_map)
    all_present, at = _present(event_type, body)
    images = []
    for present in all_present:
        chosen = zip(extents, present, strict=True)
        images.append([extent for extent, is_present in chosen if is_present])
    if at < len(body) and not any(images):
        raise ValueError("bytes follow images without columns")
    yield at
    while at < len(body):
        for n, image in enumerate(images):
            if n and event_type == PARTIAL:
                # A length precedes the changes of a document, just as it precedes a whole document.
                _, at = partial_columns(body, at, documents)
            at = _skip(image, body, at)
        yield at


def _documents(table_map: TableMap) -> list[int]:
    return [n for n, column in enumerate(table_map.columns) if column.type == FieldType.JSON]


def _present(event_type: int, body: bytes) -> tuple[list[list[bool]], int]:
    """The columns that each image of the event's rows has, and the offset of the first row."""
    at = 8 if event_type in V1 else 8 + uint(body, 8, 2)
    count, at = packed(body, at)
    found = []
    for _ in range(2 if event_type in UPDATES else 1):
        present, at = read_bytes(body, at, (count + 7) // 8)
        found.append(bits(present, count))
    return found, at


def _skip(extents: list[tuple[int, int]], body: bytes, at: int) -> int:
    nulls, at = read_bytes(body, at, (len(extents) + 7) // 8)
    for n, (size, length_size) in enumerate(extents):
        if not nulls[n >> 3] >> (n & 7) & 1:
            at += size + (length_size + uint(body, at, length_size) if length_size else 0)
    if at > len(body):
        raise IndexError("a row ends past the end of its event")
    return at


_MOST_PATTERNS = 64

Walk = Callable[[bytes, int, int], tuple[int, int]]
"""Takes an event's body, an image's offset and the body's end; returns a number of images and an offset.

The number is that of the successive images with the same NULLs, the offset that of the image after them."""


class RowCounter:
    """Counts the rows of events for a table as one TABLE_MAP describes it."""

    def __init__(self, table_map: TableMap) -> None:
        self._table_map = table_map
        self._columns = len(table_map.columns)
        self._size = (self._columns + 7) // 8
        self._walks: dict[bytes, Walk] = {}

    def count(self, event_type: int, body: bytes) -> int:
        """The number of rows in an event, also a compressed one; an update's two images are one row.

        Raise MalformedEvent if the bytes do not fit.
        """
        try:
            return self._counted(*plain_rows(event_type, body))
        except (IndexError, ValueError, KeyError, struct.error) as error:
            name = f"{self._table_map.database}.{self._table_map.table}"
            raise MalformedEvent(f"its rows cannot be counted: {error}", table=name) from error

    def _counted(self, event_type: int, body: bytes) -> int:
        at = 8 if event_type in V1 else 8 + uint(body, 8, 2)
        columns, at = packed(body, at)
        each = 2 if event_type in UPDATES else 1
        present, at = read_bytes(body, at, (columns + 7) // 8 * each)
        full = bits(present[: self._size], columns) + bits(present[-self._size :], columns)
        if event_type == PARTIAL or columns != self._columns or not columns or not all(full):
            return row_count(self._table_map, event_type, body)
        images, end = 0, len(body)
        while at < end:
            walk = self._walk(body[at : at + self._size])
            if walk is None:
                return row_count(self._table_map, event_type, body)
            more, at = walk(body, at, end)
            images += more
        if at > end or images % each:
            raise IndexError("a row ends past the end of its event")
        return images // each

    def _walk(self, nulls: bytes) -> Walk | None:
        walk = self._walks.get(nulls)
        if walk is None and len(self._walks) < _MOST_PATTERNS and len(nulls) == self._size:
            extents = map(extent, self._table_map.columns)
            is_null = bits(nulls, self._columns)
            held = [one for one, null in zip(extents, is_null, strict=True) if not null]
            walk = self._walks[nulls] = _generated(nulls, held)
        return walk


def _generated(nulls: bytes, extents: Sequence[tuple[int, int]]) -> Walk:
    """A walk for images with these NULLs; it skips values of fixed size together with what precedes them."""
    steps, fixed = [], len(nulls)
    for size, length_size in extents:
        fixed += size
        if length_size:
            steps += [f"        p += {fixed}", f"        p += {_LENGTH_CODE[length_size]}"]
            fixed = length_size
    source = "\n".join(
        [
            "def walk(d, p, end):",
            "    n = 0",
            "    while p < end and d.startswith(nulls, p):",
            *steps,
            f"        p += {fixed}",
            "        n += 1",
            "    return n, p",
        ]
    )
    namespace: dict[str, Any] = {"nulls": nulls, "from_bytes": int.from_bytes}
    exec(source, namespace)  # noqa: S102 - made of numbers alone
    walk: Walk = namespace["walk"]
    return walk


_LENGTH_CODE = {
    1: "d[p]",
    2: "d[p] + (d[p + 1] << 8)",
    3: "d[p] + (d[p + 1] << 8) + (d[p + 2] << 16)",
    4: "from_bytes(d[p:p + 4], 'little')",
}
