"""Every metric of the sink, with its meaning.

Invariant: base units, `_total` on counters, and labels bounded by the number of tables and partitions.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from spark_sink.source.offsets import Offsets

_SECONDS = (0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 900, 3600)


class Metrics:
    """The sink's metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._batches = Counter("aqueduct_sink_batches", "Batches applied.", registry=self.registry)
        self._rows = Counter(
            "aqueduct_sink_rows",
            "Row changes applied, by the wire's op.",
            ["table", "op"],
            registry=self.registry,
        )
        self._offset = Gauge(
            "aqueduct_sink_applied_offset",
            "The offset up to which (exclusive) a partition has been applied.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "aqueduct_sink_batch_duration_seconds",
            "From a batch's start to its line in the ledger.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._lag = Histogram(
            "aqueduct_sink_lag_seconds",
            "From the source's commit of a batch's oldest change to its being applied.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._visible = Gauge(
            "aqueduct_sink_visible_offset",
            "The offset up to which (exclusive) a partition is stored, merged or as recent changes.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self._visible_lag = Histogram(
            "aqueduct_sink_visible_lag_seconds",
            "From the source's commit of the oldest of some recent changes to their being stored.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._newest = Gauge(
            "aqueduct_sink_newest_commit_timestamp_seconds",
            "When the source committed the newest change applied.",
            registry=self.registry,
        )
        self._complete = Gauge(
            "aqueduct_sink_complete_until_timestamp_seconds",
            "All that Kafka held at this time is applied; its age is the sink's lag, in a stall too.",
            registry=self.registry,
        )
        self._unapplied = Gauge(
            "aqueduct_sink_unapplied_offsets",
            "Offsets that Kafka held when it was last seen and that are not applied.",
            registry=self.registry,
        )
        self._kafka = Gauge(
            "aqueduct_sink_kafka_up",
            "1 while Kafka answers the sink's questions.",
            registry=self.registry,
        )
        self._waiting = Gauge(
            "aqueduct_sink_tables_waiting",
            "Tables whose changes wait in Kafka, by the error that they wait for.",
            ["error"],
            registry=self.registry,
        )
        self._letters = Counter(
            "aqueduct_sink_dead_letters",
            "Records that cannot be used and became dead letters, by table and error.",
            ["table", "error"],
            registry=self.registry,
        )
        self._error = Gauge(
            "aqueduct_sink_last_error",
            "1 for the error that stopped the sink.",
            ["error"],
            registry=self.registry,
        )

    def serve(self, bind: str, port: int) -> None:
        """Answers GET /metrics until the process ends."""
        start_http_server(port, addr=bind, registry=self.registry)

    def rows(self, table: str, op: str, number: int) -> None:
        """Counts changes of one table."""
        self._rows.labels(table, op).inc(number)

    def applied(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Notes up to where partitions are applied."""
        for (topic, partition), offset in offsets.items():
            self._offset.labels(topic, str(partition)).set(offset)

    def visible(self, offsets: Offsets, *, oldest_ms: int | None, now: float) -> None:
        """Notes up to where partitions are stored, and the lag of the oldest change since the last time."""
        for (topic, partition), offset in offsets.items():
            self._visible.labels(topic, str(partition)).set(offset)
        if oldest_ms is not None:
            self._visible_lag.observe(max(0.0, now - oldest_ms / 1000))

    def batch(self, *, seconds: float) -> None:
        """Counts a batch."""
        self._batches.inc()
        self._duration.observe(seconds)

    def lag(self, *, seconds: float, newest: float) -> None:
        """Notes a batch's lag and the time of its newest change."""
        self._lag.observe(max(0.0, seconds))
        self._newest.set(newest)

    def complete(self, *, until: float, unapplied: int) -> None:
        """Notes up to when the warehouse is complete, and how much is left."""
        self._complete.set(until)
        self._unapplied.set(unapplied)

    def kafka(self, *, up: bool) -> None:
        """Notes whether Kafka answers."""
        self._kafka.set(up)

    def waiting(self, tables: Mapping[tuple[str, str], str]) -> None:
        """Notes the tables that wait, and for which error."""
        self._waiting.clear()
        for error, number in Counts(tables.values()).items():
            self._waiting.labels(error).set(number)

    def dead_letters(self, table: str, error: str, number: int) -> None:
        """Counts records that became dead letters; `table` is empty where they name none."""
        self._letters.labels(table, error).inc(number)

    def failed(self, name: str) -> None:
        """Notes the error that stops the sink."""
        self._error.labels(name).set(1)
