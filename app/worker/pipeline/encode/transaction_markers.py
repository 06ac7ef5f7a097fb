"""Transaction markers, which report the begin and end of transactions on the transactions topic.

Invariant: a transaction published in parts always has markers, from BEGIN to its last part. Markers of whole
transactions cost extra records, so a setting enables them. Counts are of values in the same Kafka transaction.
"""

from __future__ import annotations

from app.worker.pipeline.formats.protocol import Marker, Records
from app.worker.pipeline.number.numbers import Progress
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.record_batches import BatchWriter
from connectors.mysql.binlog.changes import Transaction


class MarkerWriter:
    """Writes the transaction markers of one piece."""

    __slots__ = (
        "_all",
        "_counts",
        "_has_begin_marker",
        "_is_published",
        "_part",
        "_records",
        "_writer",
        "size",
    )

    def __init__(self, rules: PublishingRules, writer: BatchWriter, records: Records) -> None:
        self._all = rules.markers
        self._writer = writer
        self._records = records
        self._is_published = self._has_begin_marker = False
        self._part = 1
        self._counts: dict[str, int] = {}
        self.size = 0
        """Bytes of keys and values so far."""

    def start_transaction(self, earlier: Progress | None) -> None:
        """Start another transaction; ``earlier``: its progress before this piece, None if it begins here."""
        if earlier is None:
            self._is_published = self._has_begin_marker = False
            self._part, self._counts = 1, {}
        else:
            self._is_published, self._part, self._counts = (
                earlier.is_published,
                earlier.part,
                dict(earlier.counts),
            )
            # The markers of an earlier part already count what it published.
            self._has_begin_marker = (
                earlier.is_published if self._all else earlier.order > sum(self._counts.values())
            )

    def published(self, transaction: Transaction, topic: str, values: int) -> None:
        """Count published values of the transaction."""
        counts = self._counts
        counts[topic] = counts.get(topic, 0) + values
        self._is_published = True
        if self._all and not self._has_begin_marker:
            self._begin(transaction)

    def end(self, transaction: Transaction, *, last: bool) -> None:
        """End the transaction, or a part of it."""
        is_whole = last and self._part == 1
        if not self._is_published or (is_whole and not self._all):
            return
        if not self._has_begin_marker:
            self._begin(transaction)
        self._write(self._records.end(transaction, self._counts, part=self._part, last=last))

    def _begin(self, transaction: Transaction) -> None:
        self._has_begin_marker = True
        self._write(self._records.begin(transaction))

    def _write(self, marker: Marker) -> None:
        key, value = marker
        self._writer.append(key, value, [])
        self.size += len(key) + len(value)
