"""Lag of the sink: the command `lag`, and the watch on Kafka's ends beside the stream.

The watch shows a stall although no batch ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_sink.errors import KafkaUnreachable
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from spark_sink.source.installation import Installation, installation_in
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import TOPICS, of_sink
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.topic_ids import TopicIds
from spark_sink.warehouse.waiting_tables import Waits

_log = logging.getLogger(__name__)


def lag(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Iterator[str]:
    """Yield the lines of the command. Raise KafkaUnreachable."""
    topics = KafkaTopics(spark, settings)
    earliest, ends = topics.ranges(())
    noted = TopicIds(
        notes=warehouse.notes,
        waits=Waits(warehouse.log, time.time),
        note=of_sink(TOPICS, settings.name),
    )
    yield from lag_lines(
        warehouse,
        earliest,
        ends,
        installation=installation_in(
            topics, settings.prefix, partial(read_schemas, spark, settings)
        ),
        again=noted.replaced(topics.ids({topic for topic, _ in ends})),
    )
    topics.close()


def lag_lines(
    warehouse: Warehouse[Any],
    earliest: Offsets,
    ends: Offsets,
    *,
    installation: Installation | None = None,
    again: Collection[str] = (),
    now: float | None = None,
) -> Iterator[str]:
    """Yield one line for each partition, then the sums.

    `earliest` and `ends` are Kafka's first offsets, and its ends that readers of committed records see. If
    Kafka has deleted records that were never merged, their partition is marked: the sink would stop there.
    Topics that are not of the installation are listed by name only. Offsets are void in the topics `again`,
    which were recreated.

    Invariant: nothing is written. Kafka and the warehouse are needed, but no running sink.
    """
    strange: set[str] = set()
    if installation is not None:
        known = installation.judge({topic for (topic, _), end in ends.items() if end > 0})
        strange = {topic for topic, _ in ends} & known.keys()
    for topic in sorted(strange):
        yield f"{topic}: not applied, as it is not of this installation"
    ends = {at: end for at, end in ends.items() if at[0] not in strange}
    merged, newest = warehouse.log.applied(), warehouse.log.newest_ms()
    recent = warehouse.recent.newest()
    covered = recent.cut.until if recent is not None and recent.cut.continues(merged) else {}
    unmerged = unseen = 0
    for (topic, partition), end in sorted(ends.items()):
        is_void = topic in again
        at = 0 if is_void else merged.get((topic, partition), 0)
        first = earliest.get((topic, partition), 0)
        visible = at if is_void else max(at, covered.get((topic, partition), 0))
        unmerged += max(0, end - max(at, first))
        unseen += max(0, end - max(visible, first))
        lost = f"; offsets {at} to {first} are deleted in Kafka" if at < first and at else ""
        yield (
            f"{topic} partition {partition}: merged to {at}, visible to {visible}, "
            f"committed to {end}{lost}{'; it was deleted and made again' if is_void else ''}"
        )
    seconds = "never"
    if newest:
        age = (time.time() if now is None else now) - newest / 1000
        seconds = f"{max(0.0, age):.0f} s ago"
    yield f"not merged: {unmerged} offsets; not visible: {unseen} offsets; last batch merged: {seconds}"


SECONDS: Final = 5.0


class Watch:
    """Keeps the metrics of lag and of Kafka's availability up to date."""

    def __init__(
        self,
        ends: Callable[[], Offsets],
        applied: Callable[[], Offsets],
        metrics: Metrics,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._ends = ends
        self._applied = applied
        self._metrics = metrics
        self._clock = clock
        self._freshness = Freshness()
        self._away = False
        self._ended = threading.Event()

    def begin(self, newest: float) -> None:
        """Start from `newest`, the time at which the last batch was applied; without a batch, from now."""
        now = self._clock()
        self._freshness.complete_until = min(newest, now) if newest else now
        self._metrics.complete(until=self._freshness.complete_until, unapplied=0)

    def complete_until(self) -> float:
        """Return the time up to which all that Kafka held is applied."""
        return self._freshness.complete_until

    def run(self, stop: threading.Event) -> None:
        """Look every few seconds until a stop, or `end`."""
        while not (stop.is_set() or self._ended.is_set()):
            try:
                self.look()
            except Exception:
                # The JVM ends with the sink, and may do so during a request.
                if stop.is_set() or self._ended.is_set():
                    return
                _log.exception("Kafka's offsets were not read")
            self._ended.wait(SECONDS)

    def end(self) -> None:
        """End the watch."""
        self._ended.set()

    def look(self) -> None:
        """Ask Kafka for its ends once, and set the metrics."""
        at = self._clock()
        try:
            ends = self._ends()
        except KafkaUnreachable as fault:
            if not self._away:
                _log.error("%s. The sink continues once it answers", fault)
            self._away = True
        else:
            if self._away:
                _log.info("Kafka answers again")
            self._away = False
            self._freshness.seen(at, ends)
        applied = self._applied()
        self._metrics.complete(
            until=self._freshness.reached(applied), unapplied=self._freshness.unapplied(applied)
        )
        self._metrics.unapplied(self._freshness.unapplied_topics(applied))
        self._metrics.kafka(up=not self._away)


_MOST: int = 720


@dataclass(slots=True)
class Freshness:
    """Samples of Kafka's ends that are not yet applied, oldest first.

    Invariant: `complete_until` moves forward only to a time at which all that Kafka then held is applied. If
    Kafka does not answer, or nothing is applied, it stays, so that its age grows. It is never after now: if the
    clock is set back, so is `complete_until`.
    """

    complete_until: float = 0.0
    _last: Offsets = field(default_factory=dict)
    """What Kafka held when it was last seen."""
    _samples: deque[tuple[float, Offsets]] = field(default_factory=deque)

    def seen(self, at: float, ends: Offsets) -> None:
        """Record what Kafka held at a time."""
        if self._samples and at < self._samples[-1][0]:
            self._samples = deque((min(one, at), held) for one, held in self._samples)
        self.complete_until = min(self.complete_until, at)
        if len(self._samples) >= _MOST:
            # Every other sample is enough if the sink is that late; the newest one follows below.
            self._samples = deque(list(self._samples)[::2])
        self._samples.append((at, ends))
        self._last = ends

    def reached(self, applied: Offsets) -> float:
        """Return the newest time at which Kafka held nothing that is not applied now."""
        while self._samples:
            at, ends = self._samples[0]
            if any(end > applied.get(place, 0) for place, end in ends.items()):
                break
            self.complete_until = max(self.complete_until, at)
            self._samples.popleft()
        return self.complete_until

    def unapplied(self, applied: Offsets) -> int:
        """Return the number of offsets that Kafka held when last seen, and that are not applied."""
        if not self._samples:
            return 0
        _, ends = self._samples[-1]
        return sum(max(0, end - applied.get(place, 0)) for place, end in ends.items())

    def unapplied_topics(self, applied: Offsets) -> dict[str, int]:
        """Return the same number for each topic, also for topics of which all offsets are applied."""
        found = dict.fromkeys((topic for topic, _ in self._last), 0)
        for place, end in self._last.items():
            found[place[0]] += max(0, end - applied.get(place, 0))
        return found
