"""The tags of a mapped table's records.

A tag without a column is on each record of its table. A tag with one is on updates that changed the column, and
on all other records, since an insert, a delete and a TRUNCATE bring or take the column's value. Where the image
before lacks the column, an update that set it counts as a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import orjson

from app.worker.pipeline.gather.masked_columns import MaskedRow
from connectors.mysql.rows.compiled.generate import Row
from tables.rules.mapping.rules import Tag

_MISSING = object()


class RowTags:
    """The tags of one table version's rows."""

    def __init__(self, tags: Iterable[Tag], columns: Iterable[str]) -> None:
        """``columns``: the names as in images, which tags may have in another case."""
        names = {one.lower(): one for one in columns}
        stated = [(one.name, one.column.lower()) for one in tags]
        self._tags = tuple((name, names.get(column, column)) for name, column in stated)
        self._raw = tuple(stated)
        """With the columns as in the binlog, in lower case."""
        self.all = tuple(dict.fromkeys(name for name, _ in self._tags))
        """Those of records that are no updates."""
        self.watches = any(column for _, column in self._tags)
        """Whether updates differ in their tags."""

    def runs(self, rows: list[Row]) -> Iterator[tuple[tuple[str, ...], list[Row]]]:
        """Yield the rows in order, neighbours with equal tags together."""
        for tags, run in groupby(rows, self._of):
            yield tags, list(run)

    def _of(self, row: Row) -> tuple[str, ...]:
        before, after, old_key, new_key, _ = row
        if before is None or after is None or old_key != new_key:
            return self.all
        was, is_, tags = orjson.loads(before), orjson.loads(after), self._tags
        if isinstance(row, MaskedRow):
            # A masked value may be the same after it changed, and a renamed column has another name.
            was, is_ = map(_in_lower_case, row.raw)
            tags = self._raw
        found = (name for name, column in tags if not column or _changed(was, is_, column))
        return tuple(dict.fromkeys(found))


def _in_lower_case(image: str | None) -> dict[str, Any]:
    return {name.lower(): value for name, value in orjson.loads(image or "{}").items()}


def _changed(before: dict[str, Any], after: dict[str, Any], column: str) -> bool:
    if column not in after:
        return False
    found: bool = before.get(column, _MISSING) != after[column]
    return found
