"""The generated functions of one table, by the NULLs of the rows that they read.

Invariant: rows with any pattern of NULLs can be read, but only a limited number of patterns have functions
of their own.
"""

from __future__ import annotations

from connectors.mysql.buffer import read_bytes
from connectors.mysql.rows.compiled.generate import (
    Change,
    ImageFunction,
    Images,
    Row,
    RowsFunction,
    Table,
    image_function,
    rows_function,
)

_MOST_PATTERNS = 64
"""Maximum number of NULL patterns with a function of their own; others share a function that tests each bit."""
_MOST_COLUMNS = 8192
"""Maximum number of columns in all these functions together, so that a wide table has fewer functions."""


def _one_insert(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    after, key, at = images.image(data, at)
    found.append((None, after, None, key, None))
    return at


def _one_delete(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    before, key, at = images.image(data, at)
    found.append((before, None, key, None, None))
    return at


def _one_update(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    before, old_key, at = images.image(data, at)
    after, new_key, at = images.image(data, at)
    found.append((before, after, old_key, new_key, None))
    return at


_ONE_BY_ONE: dict[Change, RowsFunction] = {
    Change.INSERT: _one_insert,
    Change.DELETE: _one_delete,
    Change.UPDATE: _one_update,
}
"""Functions for rows whose NULL pattern has no function of its own."""


class Patterns:
    """Makes the functions when rows need them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._images: dict[bytes, ImageFunction] = {}
        self._any: ImageFunction | None = None
        self._room = min(_MOST_PATTERNS, _MOST_COLUMNS // len(table.fields))
        """Number of further functions allowed for NULL patterns."""

    def nulls(self, data: bytes, at: int) -> bytes:
        """The NULL bitmap of the row at an offset; raise IndexError if the bytes end before the bitmap does."""
        return read_bytes(data, at + self.table.head_size, self.table.bitmap_size)[0]

    def run(
        self, made: dict[bytes, RowsFunction], head: bytes, nulls: bytes, change: Change
    ) -> RowsFunction:
        """Return the function that reads rows with these NULLs; a new one is kept in ``made``."""
        run = made.get(head + nulls)
        if run is None:
            if not self._room:
                return _ONE_BY_ONE[change]
            self._room -= 1
            run = made[head + nulls] = rows_function(self.table, nulls, change)
        return run

    def image(self, data: bytes, at: int) -> tuple[str, str | None, int]:
        """One image with any NULL pattern."""
        begin, size = at + self.table.head_size, self.table.bitmap_size
        nulls = data[begin : begin + size]
        made = self._images.get(nulls)
        if made is not None:
            return made(data, at)
        if self._room and len(nulls) == size:
            self._room -= 1
            made = self._images[nulls] = image_function(self.table, nulls)
            return made(data, at)
        if self._any is None:
            self._any = image_function(self.table, None)
        return self._any(data, at)
