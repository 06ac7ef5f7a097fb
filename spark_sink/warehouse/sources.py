"""The sources that fill a table, and the commit time up to which all changes of each are applied.

A marker of a deleted row may be purged only once no source can still send an older change of its key. The rows
alone do not name all sources: those of a source may all have been replaced by rows of other sources.

Invariant: a commit time is certain only once everything that Kafka held well after it was noted is applied. A
source publishes in commit order, but its partitions are applied unevenly, and a transaction that was open in
one of them may have hidden the records after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_sink.text.quoting import SOURCES
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import Name

_LONGEST_TRANSACTION_SECONDS: Final = 900.0
"""Kafka's limit (`transaction.max.timeout.ms`): a transaction open now has ended after that time."""


@dataclass(slots=True, kw_only=True)
class Sources:
    """The sources of the warehouse's tables."""

    notes: Notes
    of_table: Callable[[Name], Collection[str]]
    """Returns the sources that have published a version of a table to the schemas topic."""
    newest: Mapping[str, int]
    """The newest commit time (ms) of each source that batches of this process have applied."""
    note: str = SOURCES
    """The name of the note that keeps the times."""
    _certain: dict[str, int] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)
    _noted_at: float = 0.0
    _was_read: bool = False

    def settle(self, now: float, complete_until: float) -> None:
        """Make the noted times certain once `complete_until` is well past them, then note the new ones."""
        self._read()
        if self._noted and complete_until < self._noted_at + _LONGEST_TRANSACTION_SECONDS:
            return
        self._certain = _later(self._certain, self._noted)
        self._noted, self._noted_at = dict(self.newest), now

    def all_past(self, name: Name, in_rows: Collection[str]) -> float:
        """The commit time (ms) before which no source of the table can send a change.

        Infinite with a single source; 0 if one of several was not seen yet.
        """
        found = {*in_rows, *self.of_table(name)}
        self._read()
        if len(found) < 2:
            return float("inf")
        return min(self._certain.get(source, 0) for source in found)

    def keep(self) -> None:
        """Store the times for the next process."""
        stored = {
            "version": 1,
            "certain": self._certain,
            "noted": self._noted,
            "noted_at": self._noted_at,
        }
        self.notes.write(self.note, json.dumps(stored))

    def _read(self) -> None:
        if self._was_read:
            return
        self._was_read = True
        try:
            stored: dict[str, Any] = json.loads(self.notes.read(self.note) or "{}")
        except ValueError:
            # The process was killed while writing it: markers stay a little longer.
            return
        if stored.get("version") == 1:
            self._certain, self._noted = stored["certain"], stored["noted"]
            self._noted_at = stored["noted_at"]


def _later(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}
