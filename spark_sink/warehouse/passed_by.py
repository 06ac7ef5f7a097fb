"""The foreign records in the topics of table versions, DDL and transaction markers, noted for `status`.

Invariant: each such record is logged once, and counted in a note until its topic no longer has it; a topic that
is read in parts keeps the count.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_sink.source.own_topics import ForeignRecord, warn_of_foreign
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import PASSED_BY
from spark_sink.warehouse.notes import Notes, json_of

_VERSION: Final = 1


@dataclass(slots=True, kw_only=True)
class PassedBy:
    """The note of one sink. Thread-safe."""

    notes: Notes
    note: str = PASSED_BY
    """The name of the note of this sink."""
    _topics: dict[str, dict[str, Any]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def all_of(self, topic: str, found: Sequence[ForeignRecord]) -> None:
        """Note all foreign records of a topic, which was read as a whole."""
        with self._lock:
            topics = self._known()
            new = _new(topics.get(topic), found)
            warn_of_foreign(topic, new)
            if new or len(found) != topics.get(topic, {}).get("records", 0):
                self._keep(topic, len(found), found)

    def more(self, found: Sequence[ForeignRecord]) -> None:
        """Note foreign records; those from before the last that is noted of their partition are known."""
        with self._lock:
            topics = self._known()
            for topic in sorted({one.topic for one in found}):
                new = _new(topics.get(topic), [one for one in found if one.topic == topic])
                if new:
                    warn_of_foreign(topic, new)
                    self._keep(topic, topics.get(topic, {}).get("records", 0) + len(new), new)

    def forget(self, topics: Sequence[str]) -> None:
        """Forget topics that were deleted and made again."""
        with self._lock:
            for topic in topics:
                if topic in self._known():
                    self._keep(topic, 0, ())

    def _known(self) -> dict[str, dict[str, Any]]:
        if self._topics is None:
            # If the text is incomplete, it is written again with the next record.
            self._topics = _noted(self.notes, self.note)
        return self._topics

    def _keep(self, topic: str, records: int, found: Sequence[ForeignRecord]) -> None:
        topics = self._known()
        before = topics.pop(topic, {})
        if records:
            last = max(found)
            ends = {str(one.partition): one.offset + 1 for one in sorted(found)}
            topics[topic] = {
                "records": records,
                "ends": {**before.get("ends", {}), **ends},
                "last": [last.partition, last.offset, last.reason],
            }
        self.notes.write(self.note, json.dumps({"version": _VERSION, "topics": topics}))


def _new(noted: Mapping[str, Any] | None, found: Sequence[ForeignRecord]) -> list[ForeignRecord]:
    ends = (noted or {}).get("ends", {})
    return [one for one in found if one.offset >= ends.get(str(one.partition), 0)]


def _noted(notes: Notes, note: str) -> dict[str, dict[str, Any]]:
    return dict(json_of(notes, note, {}).get("topics", {}))


def passed_by_lines(notes: Notes, note: str) -> Iterator[str]:
    """The lines of the status: two for each topic that has foreign records."""
    for topic, one in sorted(_noted(notes, note).items()):
        partition, offset, reason = one["last"]
        yield f"topic {topic}: {one['records']} record(s) PASSED BY, as no worker wrote them"
        yield f"  last: {place(topic, partition, offset, reason)}"
