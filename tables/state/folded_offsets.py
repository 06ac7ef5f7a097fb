"""The offsets of journal records that were folded, for parts whose records may be folded twice.

Invariant: a record changes a part once, and an older record of its key never changes it after a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.kafka.reading.partition_reader import StoredRecord


@dataclass(slots=True)
class FoldedOffsets:
    """The last offset of each key."""

    _last: dict[bytes, int] = field(default_factory=dict)

    def is_new(self, record: StoredRecord) -> bool:
        """Whether a record is newer than those of its key before; it is from now on not."""
        if record.offset <= self._last.get(record.key, -1):
            return False
        self._last[record.key] = record.offset
        return True
