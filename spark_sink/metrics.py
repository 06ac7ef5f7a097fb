"""Every metric of the sink, with its meaning.

Invariant: base units, `_total` on counters, and labels bounded by the settings or by the number of partitions.
Once `metrics.tables` tables or topics have labels of their own, all later ones share the label `(others)`. The
gauges of a table or topic that no longer exists are removed; counters stay as long as the process runs.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from spark_sink.settings.model import TABLES_WITH_METRICS
from spark_sink.source.positions import Offsets, Place

_SECONDS = (0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 900, 3600)
_STAGE_SECONDS = (0.01, 0.05, *_SECONDS)
OTHERS = "(others)"
"""The label that all tables or topics without a label of their own share; no table or topic has this name."""


class _Labels:
    """The labels of names: the first names, up to a limit, have their own; all later names share one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._own:
            if len(self._own) >= self._most:
                return OTHERS
            self._own.add(name)
        return name

    def free(self, name: str) -> None:
        """Free the label of a name for another name."""
        self._own.discard(name)


class Metrics:
    """The sink's metrics in a registry of their own."""

    def __init__(self, *, tables: int = TABLES_WITH_METRICS) -> None:
        """``tables`` is the number of tables, and of topics, that have labels of their own."""
        self.registry = CollectorRegistry()
        self._tables, self._topics = _Labels(tables), _Labels(tables)
        self._held_topics: frozenset[str] = frozenset()
        """The topics that Kafka held at the last call of `unapplied`."""
        self._labelling = threading.Lock()
        self._seen_places: dict[str, Place] = {}
        self._applied_places: dict[str, Place] = {}
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self._batches = counter("aqueduct_sink_batches", "Batches applied.")
        self._rows = counter(
            "aqueduct_sink_rows", "Row changes applied, by the wire's op.", ["table", "op"]
        )
        self._offset = gauge(
            "aqueduct_sink_applied_offset",
            "The offset up to which (exclusive) a partition has been applied.",
            ["topic", "partition"],
        )
        self._duration = histogram(
            "aqueduct_sink_batch_duration_seconds",
            "From a batch's start to its line in the ledger.",
            buckets=_SECONDS,
        )
        self._lag = histogram(
            "aqueduct_sink_lag_seconds",
            "From the source's commit of a batch's oldest change to its being applied.",
            buckets=_SECONDS,
        )
        self._stage = histogram(
            "aqueduct_sink_stage_seconds",
            "Time of the stages of batches, and of their tables (fold, merge).",
            ["stage"],
            buckets=_STAGE_SECONDS,
        )
        self._table_seconds = counter(
            "aqueduct_sink_table_seconds", "Time that merging a table took.", ["table"]
        )
        self._table_lag = gauge(
            "aqueduct_sink_table_lag_seconds",
            "From the commit of the oldest change in a table's last batch to its merge.",
            ["table"],
        )
        self._topic_unapplied = gauge(
            "aqueduct_sink_topic_unapplied_offsets",
            "Offsets of a topic that Kafka held when it was last seen and that are not applied.",
            ["topic"],
        )
        self._destination_lag = gauge(
            "aqueduct_sink_destination_lag_seconds",
            "From the commit of the oldest change of a destination in its last batch to its merge.",
            ["destination"],
        )
        self._applied_seq = gauge(
            "aqueduct_sink_applied_seq",
            "The highest seq of a destination's changes that are merged.",
            ["destination"],
        )
        self._seen_seq = gauge(
            "aqueduct_sink_seen_seq",
            "The highest seq of a destination's changes that the sink has read from Kafka.",
            ["destination"],
        )
        self._visible = gauge(
            "aqueduct_sink_visible_offset",
            "The offset up to which (exclusive) a partition is stored, merged or as recent changes.",
            ["topic", "partition"],
        )
        self._visible_lag = histogram(
            "aqueduct_sink_visible_lag_seconds",
            "From the source's commit of the oldest of some recent changes to their being stored.",
            buckets=_SECONDS,
        )
        self._newest = gauge(
            "aqueduct_sink_newest_commit_timestamp_seconds",
            "When the source committed the newest change applied.",
        )
        self._complete = gauge(
            "aqueduct_sink_complete_until_timestamp_seconds",
            "All that Kafka held at this time is applied; its age is the sink's lag, in a stall too.",
        )
        self._unapplied = gauge(
            "aqueduct_sink_unapplied_offsets",
            "Offsets that Kafka held when it was last seen and that are not applied.",
        )
        self._kafka = gauge("aqueduct_sink_kafka_up", "1 while Kafka answers the sink's questions.")
        self._waiting = gauge(
            "aqueduct_sink_tables_waiting",
            "Tables whose changes wait in Kafka, by the error that they wait for.",
            ["error"],
        )
        self._gaps = gauge(
            "aqueduct_sink_tables_with_gaps",
            "Tables of which a statement on partitions has changed rows at the source that no record names.",
        )
        self._unmaintained = gauge(
            "aqueduct_sink_tables_unmaintained",
            "Tables whose last maintenance failed; status has the reason of each.",
        )
        self._letters = counter(
            "aqueduct_sink_dead_letters",
            "Records that cannot be used and became dead letters, by table and error.",
            ["table", "error"],
        )
        self._error = gauge(
            "aqueduct_sink_last_error", "1 for the error that stopped the sink.", ["error"]
        )

    def serve(self, bind: str, port: int) -> None:
        """Answer GET /metrics until the process ends."""
        start_http_server(port, addr=bind, registry=self.registry)

    def rows(self, table: str, op: str, number: int) -> None:
        """Count changes of one table."""
        self._rows.labels(self._table(table), op).inc(number)

    def stage(self, stage: str, seconds: float) -> None:
        """Note the time of one stage."""
        self._stage.labels(stage).observe(seconds)

    def table(self, table: str, *, seconds: float, lag: float) -> None:
        """Note the time of one table's merge, and its lag."""
        label = self._table(table)
        self._table_seconds.labels(label).inc(seconds)
        self._table_lag.labels(label).set(lag)

    def destination(self, name: str, place: Place, *, lag: float) -> None:
        """Note the changes of a destination that a batch has merged."""
        self._destination_lag.labels(name).set(lag)
        self._applied_places[name] = max(place, self._applied_places.get(name, place))
        self._applied_seq.labels(name).set(self._applied_places[name][1])

    @property
    def destinations(self) -> list[str]:
        """The destinations whose changes were read so far."""
        with self._labelling:
            return sorted(self._seen_places)

    def seen(self, places: Mapping[str, Place]) -> None:
        """Note the highest (epoch, seq) that was read of each destination."""
        for name, place in places.items():
            with self._labelling:
                self._seen_places[name] = max(place, self._seen_places.get(name, place))
                self._seen_seq.labels(name).set(self._seen_places[name][1])

    def unapplied(self, topics: Mapping[str, int]) -> None:
        """Note the number of unapplied offsets of each topic; ``topics`` has all topics that Kafka holds."""
        for topic in self._held_topics - topics.keys():
            for gauge in (self._offset, self._visible, self._topic_unapplied):
                gauge.remove_by_labels({"topic": topic})
            self._topics.free(topic)
        self._held_topics = frozenset(topics)
        numbers: Counts[str] = Counts()
        for topic, number in sorted(topics.items()):
            numbers[self._topics.of(topic)] += number
        for label, number in numbers.items():
            self._topic_unapplied.labels(label).set(number)
        if OTHERS not in numbers:
            self._topic_unapplied.remove(OTHERS)

    def applied(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note the offset up to which each partition is applied."""
        for (topic, partition), offset in offsets.items():
            self._offset.labels(topic, str(partition)).set(offset)

    def visible(self, offsets: Offsets, *, oldest_ms: int | None, now: float) -> None:
        """Note the offset up to which each partition is stored, and the lag of the oldest new change."""
        for (topic, partition), offset in offsets.items():
            self._visible.labels(topic, str(partition)).set(offset)
        if oldest_ms is not None:
            self._visible_lag.observe(max(0.0, now - oldest_ms / 1000))

    def batch(self, *, seconds: float) -> None:
        """Count a batch."""
        self._batches.inc()
        self._duration.observe(seconds)

    def lag(self, *, seconds: float, newest: float) -> None:
        """Note a batch's lag and the time of its newest change."""
        self._lag.observe(max(0.0, seconds))
        self._newest.set(newest)

    def complete(self, *, until: float, unapplied: int) -> None:
        """Note the time up to which the warehouse is complete, and the number of unapplied offsets."""
        self._complete.set(until)
        self._unapplied.set(unapplied)

    def kafka(self, *, up: bool) -> None:
        """Note whether Kafka answers."""
        self._kafka.set(up)

    def waiting(self, tables: Mapping[tuple[str, str], str]) -> None:
        """Note the tables that wait, each with the error that it waits for."""
        self._waiting.clear()
        for error, number in Counts(tables.values()).items():
            self._waiting.labels(error).set(number)

    def unmaintained(self, number: int) -> None:
        """Note how many tables could not be maintained."""
        self._unmaintained.set(number)

    def gaps(self, number: int) -> None:
        """Note how many tables have rows that a statement has changed without a record."""
        self._gaps.set(number)

    def dead_letters(self, table: str, error: str, number: int) -> None:
        """Count records that became dead letters; `table` is empty if the records name no table."""
        self._letters.labels(self._table(table) if table else "", error).inc(number)

    def forget(self, tables: Iterable[tuple[str, str]]) -> None:
        """Remove the gauge of tables that were dropped or renamed."""
        for name in map(".".join, tables):
            self._table_lag.remove(name)

    def _table(self, name: str) -> str:
        # Tables are merged by several threads.
        with self._labelling:
            return self._tables.of(name)

    def failed(self, name: str) -> None:
        """Note the error that stops the sink."""
        self._error.labels(name).set(1)
