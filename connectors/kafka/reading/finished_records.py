"""The records of a finished batch, read back as a consumer would receive them."""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka.record import MemoryRecords

from connectors.kafka.record_batches import FinishedBatch, Record


def finished_records(batch: FinishedBatch) -> Iterator[Record]:
    """Yield key, value and headers of each record, in order."""
    stored = MemoryRecords(bytes(batch.raw))
    while (one := stored.next_batch()) is not None:
        for record in one:
            yield record.key, record.value, list(record.headers)
