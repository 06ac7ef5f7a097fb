"""A window of change ids: records that were acknowledged before are dropped when they come again.

Invariant: a record is remembered when its batch is acknowledged, also if the acknowledgement failed, and not
when it is delivered: what was rolled back is delivered again. The window lives as long as the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aqueduct_client.records import Record


@dataclass(slots=True)
class Window:
    """The newest change ids, per topic."""

    size: int
    _seen: dict[tuple[str, str], None] = field(default_factory=dict)

    def has(self, record: Record) -> bool:
        """Whether the change was acknowledged within the window."""
        return bool(self.size) and self._name(record) in self._seen

    def add(self, records: Iterable[Record]) -> None:
        """Remember changes."""
        if not self.size:
            return
        for record in records:
            self._seen[self._name(record)] = None
        while len(self._seen) > self.size:
            del self._seen[next(iter(self._seen))]

    def _name(self, record: Record) -> tuple[str, str]:
        return record.raw.partition.topic, record.change_id
