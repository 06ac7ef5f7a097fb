"""Counting the rows of uncaptured tables, with code generated for each pattern of NULLs.

Invariant: the count equals that of ``rows.counter``, which also handles unusual events; a walk ends
exactly at its event's end, or is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from connectors.errors import MalformedEvent
from connectors.mysql.binlog.mariadb_events import plain_rows
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.buffer import bits, packed, read_bytes, uint
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import PARTIAL, UPDATES, V1
from connectors.mysql.types.registry import extent

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
            steps += [f"        p += {fixed}", f"        p += {_LENGTHS[length_size]}"]
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


_LENGTHS = {
    1: "d[p]",
    2: "d[p] + (d[p + 1] << 8)",
    3: "d[p] + (d[p + 1] << 8) + (d[p + 2] << 16)",
    4: "from_bytes(d[p:p + 4], 'little')",
}
