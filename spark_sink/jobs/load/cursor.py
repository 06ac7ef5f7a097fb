"""A destination's cursor in the worker's journal: the published position, as GTIDs and as (epoch, seq).

Invariant: a cursor is in the Kafka transaction of the records before it, so the records can be read once the
cursor can.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pyspark.sql import functions as f

from spark_sink.errors import LoadRefused
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.positions import Offsets
from wire.topics import journal_topic

_WINDOW: Final = 1_000
_SECONDS: Final = 2.0
_ADVICE: Final = "A load needs a running worker: see `python -m app destination list`"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCursor:
    """The published position: all records up to (epoch, seq) are those of the transactions in `gtids`.

    Unless it `is_whole`, some records are of a transaction that is published in parts and is not in `gtids`.
    """

    epoch: int
    seq: int
    gtids: str
    written_ms: int
    is_whole: bool
    by: str | None
    """The intervention that set the cursor there; None if the worker reached the position by itself."""
    installation: str


@dataclass(slots=True, kw_only=True)
class Cursors:
    """The cursor of a destination, as it moves."""

    topics: KafkaTopics
    prefix: str
    destination: str

    def now(self) -> SourceCursor:
        """Return the newest cursor. Raise LoadRefused if none exists or it has no GTIDs; KafkaUnreachable."""
        topic, key = journal_topic(self.prefix), f"cursor/{quote(self.destination, safe='')}"
        earliest, ends = self.topics.own_ranges(topic)
        window, found = _WINDOW, None
        while found is None:
            start = {at: max(earliest[at], end - window) for at, end in ends.items()}
            found = self._last(key, start, ends)
            if all(start[at] <= earliest[at] for at in ends):
                break
            window *= 10
        if found is None:
            raise LoadRefused(
                f"the journal {topic} has no cursor of destination {self.destination}",
                advice=_ADVICE,
            )
        body: dict[str, Any] = json.loads(found)
        if body.get("gtid_set") is None:
            raise LoadRefused(
                f"the cursor of {self.destination} has no GTIDs",
                advice="Set gtid_mode to ON at the source; or let the worker read the existing rows: "
                f"python -m app snapshot start {self.destination}",
            )
        return SourceCursor(
            epoch=body["epoch"],
            seq=body["seq"],
            gtids=body["gtid_set"],
            written_ms=body.get("written_ms") or 0,
            is_whole=body.get("resume") is None,
            by=body.get("by"),
            installation=body["installation"],
        )

    def between(self, *, seconds: float, stopped: Callable[[float], bool]) -> SourceCursor:
        """Return the newest cursor between two transactions; wait while a transaction is published in parts.

        Raise LoadRefused, KafkaUnreachable.
        """
        return self.wait_past(lambda now: now.is_whole, seconds=seconds, stopped=stopped)

    def wait_past(
        self,
        is_past: Callable[[SourceCursor], bool],
        *,
        seconds: float,
        stopped: Callable[[float], bool],
    ) -> SourceCursor:
        """Wait for a cursor that `is_past`. Raise LoadRefused if none comes in time, or the wait is stopped."""
        deadline = time.monotonic() + seconds
        while not is_past(found := self.now()):
            if time.monotonic() >= deadline:
                raise LoadRefused(
                    f"the cursor of {self.destination} has not come far enough within {seconds:.0f} s",
                    advice=f"{_ADVICE}; then run the command again: it continues",
                )
            if stopped(_SECONDS):
                raise LoadRefused("it was stopped", advice="Run the command again: it continues")
        return found

    def _last(self, key: str, start: Offsets, ends: Offsets) -> str | None:
        records = self.topics.read(start, ends).where(f.col("key").cast("string") == key)
        value = f.max_by(f.col("value").cast("string"), "offset").alias("value")
        rows = records.groupBy("key").agg(value).collect()
        return str(rows[0].value) if rows else None
