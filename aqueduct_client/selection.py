"""Which records of the topics a subscriber gets.

Invariant: tags are compared by header, so that a record without a wanted tag is not parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aqueduct_client.dedup import Window
from aqueduct_client.records import RawRecord, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rule."""

    tables: Mapping[str, frozenset[str] | None]
    """By topic, the logical tables wanted of it; None: all that it has."""
    tags: frozenset[str] = frozenset()
    """Any of these; empty: with and without tags."""

    def take(self, raw: RawRecord, window: Window) -> Record | None:
        """Return the record if it is wanted."""
        if raw.value is None or (self.tags and self.tags.isdisjoint(raw.tags)):
            return None
        raw.check_format()
        record = Record(raw)
        if window.has(record):
            return None
        wanted = self.tables[raw.partition.topic]
        return record if wanted is None or record.logical_table in wanted else None
