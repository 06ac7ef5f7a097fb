"""Which tables are so large that a MERGE's search for matching rows is worth a generated program.

Invariant: a table's size is read again only after some merges, as it decides on speed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_sink.batch.contents import TablePart
from spark_sink.spark.pace import LARGE, MANY
from spark_sink.warehouse.protocol import Facts, Name
from spark_sink.warehouse.table_faults import FAILURES

_MERGES: Final = 50
"""After so many, a table's size is read again."""


@dataclass(slots=True, kw_only=True)
class TableSizes:
    """The sizes of the tables that batches have changed."""

    facts: Facts
    merged: Mapping[Name, int]
    """The merges of each table by this process."""
    _known: dict[Name, tuple[int, int]] = field(default_factory=dict)
    """The merges up to then, and the bytes."""

    def rows(self, parts: Iterable[TablePart]) -> int:
        """How many rows a batch is to be executed for: those of its largest part, or many for a large table."""
        return max((self._rows(part) for part in parts), default=0)

    def _rows(self, part: TablePart) -> int:
        rows = part.ops.total()
        return rows if rows >= MANY or self._bytes(part.name) < LARGE else MANY

    def _bytes(self, name: Name) -> int:
        merges = self.merged.get(name, 0)
        at, size = self._known.get(name, (-_MERGES, 0))
        if merges - at >= _MERGES:
            try:
                size = self.facts.size(name)
            except FAILURES:
                # Its merge finds why it cannot be read.
                size = 0
            self._known[name] = merges, size
        return size
