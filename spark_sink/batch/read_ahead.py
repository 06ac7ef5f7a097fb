"""The other half of a move, read before the stream comes to it.

A row that moves to another key is a delete and a create, mostly in two partitions, so a batch may have only one
of them. If images lack columns, the create needs the row that the delete removes: both must be in one batch.

Invariant: records read ahead are applied by (epoch, seq) like all others, so they change nothing once
the stream comes to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.batch.contents import envelopes
from spark_sink.batch.partial_images import Change, halves, partners
from spark_sink.source.envelope import of_table
from spark_sink.source.kafka import Topics
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal

_SECONDS: Final = 20.0
"""Seconds to wait for a half that is committed but not visible: an open transaction may hide it that long."""
_PAUSE: Final = 0.3


class Ahead:
    """Reads ahead, and remembers which moves it has completed by that."""

    def __init__(
        self,
        topics: Topics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        routed: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    ) -> None:
        """``routed`` returns envelopes with the tables to which they belong now."""
        self._topics = topics
        self._clock = clock
        self._sleep = sleep
        self._routed = routed
        self._met: set[Change] = set()
        """Halves of earlier batches whose other halves were read ahead, and are yet to come in the stream."""

    def missing(
        self, batch: DataFrame, table: tuple[str, str], topics: Collection[str], until: Offsets
    ) -> DataFrame | None:
        """Return the table's envelopes past `until` that complete the moves in `batch`; None without any.

        Records that do not arrive within _SECONDS are omitted; the rows then report what is unknown.
        """
        first = halves(batch.where(of_table(table)))
        seen, wanted = set(first), partners(first) - set(first)
        known = wanted & self._met
        self._met -= known
        wanted -= known
        found, reached, deadline = None, dict(until), self._clock() + _SECONDS
        while wanted:
            more = self._next(table, topics, reached, wanted)
            if more is None:
                if self._clock() >= deadline:
                    break
                self._sleep(_PAUSE)
                continue
            found = more if found is None else found.unionByName(more)
            come = halves(more)
            seen |= set(come)
            wanted = (wanted | partners(come)) - seen - known
        later = seen - set(first)
        self._met |= {one for one, op in first.items() if partners({one: op}) <= later}
        return found

    def _next(
        self,
        table: tuple[str, str],
        topics: Collection[str],
        reached: dict[tuple[str, int], int],
        wanted: Collection[Change],
    ) -> DataFrame | None:
        """The records up to each partition's last wanted one, or None; moves `reached` past them."""
        latest = self._topics.ranges(topics)[1]
        start = {at: min(reached.get(at, 0), end) for at, end in latest.items()}
        hits = self._read(table, start, latest).where(_any_of(wanted))
        last = {
            (row.topic, row.partition): row.last + 1
            for row in hits.groupBy("topic", "partition")
            .agg({"offset": "max"})
            .toDF("topic", "partition", "last")
            .collect()
        }
        if not last:
            return None
        reached.update(last)
        return self._read(table, {at: start[at] for at in last}, last).localCheckpoint(eager=False)

    def _read(self, table: tuple[str, str], start: Offsets, end: Offsets) -> DataFrame:
        return self._routed(envelopes(self._topics.read(start, end))).where(of_table(table))


def _any_of(wanted: Collection[Change]) -> str:
    by_destination: dict[str, list[str]] = {}
    for destination, seq in sorted(wanted):
        by_destination.setdefault(destination, []).append(str(seq))
    return " OR ".join(
        f"(destination = {literal(destination)} AND seq IN ({', '.join(seqs)}))"
        for destination, seqs in by_destination.items()
    )
