"""Finished record batches: built and compressed in any process, sent by a destination's one
producer.

Invariant: a batch is finished except for its sender's stamp. Producer id, epoch and base sequence
are stamped into its header when it is first sent, and stay the same whenever it is sent again; its
records are never touched. Source: KIP-98 and https://kafka.apache.org/documentation/#recordbatch
(magic 2); for what aiokafka's producer needs of a batch,
`aiokafka.producer.message_accumulator.BatchBuilder`, version 0.14.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from connectors.kafka.compression import compress_fast
from connectors.kafka.partitioner import partitions_of
from wire.changes import change_key
from wire.records import HEADER_CHANGE_ID

Headers = list[tuple[str, bytes]]
Record = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""
Shrink = Callable[[str, Record], Record]
"""Returns the replacement of a topic's record that is too large for it."""

MAX_BATCH_BYTES: Final = 1024 * 1024
"""Before compression; a fraction of that on the wire."""

_CODECS: Final[dict[str | None, int]] = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_MAGIC: Final = 2
_TRANSACTIONAL: Final = 1
_UNSTAMPED: Final = (-1, -1, -1)
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43

compress_fast()


class FinishedBatch(NamedTuple):
    """A record batch, finished except for its producer's stamp; it is passed between processes as it is."""

    topic: str
    partition: int
    raw: bytes | bytearray
    """The whole batch with its header. A bytearray is stamped in place, without a copy."""
    records: int


class BatchWriter:
    """Gathers records of one topic and makes transactional batches of them.

    A batch is closed before it has more than ``max_bytes`` uncompressed. A record that is larger by
    itself is alone in its batch; if that has more than ``largest`` bytes when it is finished, as a
    broker counts, ``shrink`` returns a replacement; without ``shrink`` the broker refuses it. All
    records have one timestamp. For a compacted topic all are ``keyed``: a record without a key gets
    its ChangeId as one.
    """

    __slots__ = (
        "_codec",
        "_keyed",
        "_largest",
        "_max_bytes",
        "_partitions",
        "_placed",
        "_records",
        "_shrink",
        "_timestamp_ms",
        "_topic",
    )

    def __init__(
        self,
        topic: str,
        *,
        partitions: int,
        compression: str | None,
        timestamp_ms: int,
        max_bytes: int = MAX_BATCH_BYTES,
        largest: int = 0,
        shrink: Shrink | None = None,
        keyed: bool = False,
    ) -> None:
        self._keyed = keyed
        self._topic = topic
        self._largest, self._shrink = largest, shrink
        self._partitions = partitions
        self._codec = _CODECS[compression]
        self._timestamp_ms = timestamp_ms
        self._max_bytes = max_bytes
        self._records: list[Record] = []
        self._placed: dict[int, bytes] = {}
        """What chooses the partition of a record, by its index, if that is not its key."""

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record. Its partition is its key's, or the first if it has none."""
        self._records.append((key, value, headers))

    def append_placed(
        self, place: bytes, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Add a record whose partition is chosen by ``place`` as if that were its key."""
        self._placed[len(self._records)] = place
        self._records.append((key, value, headers))

    def extend(self, records: Iterable[Record]) -> None:
        """Add many records, which saves their calls of `append`."""
        self._records.extend(records)

    def finished(self) -> list[FinishedBatch]:
        """Return the batches of all added records, in order within each partition; the writer is
        empty again.

        The first batches of all partitions come first, then the second ones, and so on: a request
        to a broker takes one batch of each partition, so this order needs the fewest requests.
        """
        # Nothing is encoded before this: hashing many keys together costs a tenth.
        records, self._records = self._records, []
        placed, self._placed = self._placed, {}
        by_partition = [
            self._batches(partition, share)
            for partition, share in self._shares(records, placed).items()
        ]
        rounds = zip_longest(*by_partition)
        return [batch for batch in chain.from_iterable(rounds) if batch is not None]

    def _shares(self, records: list[Record], placed: dict[int, bytes]) -> dict[int, list[Record]]:
        """The records of each partition that has any."""
        if self._partitions == 1:
            return {0: records} if records else {}
        shares: dict[int, list[Record]] = {}
        keys = [key for key, _, _ in records]
        for index, place in placed.items():
            keys[index] = place
        partitions = partitions_of(keys, self._partitions)
        for partition, record in zip(partitions, records, strict=True):
            if partition in shares:
                shares[partition].append(record)
            else:
                shares[partition] = [record]
        return shares

    def _batches(self, partition: int, records: list[Record]) -> Iterator[FinishedBatch]:
        """The records of one partition, as batches."""
        if self._keyed:
            records = list(map(_keyed, records))
        timestamp, builder, count, first = self._timestamp_ms, self._builder(), 0, 0
        append = builder.append
        for key, value, headers in records:
            if append(count, timestamp, key, value, headers) is None:  # it is full
                raw = self._fitting(builder.build(), records[first])
                yield FinishedBatch(self._topic, partition, raw, count)
                first += count
                builder, count = self._builder(), 0
                append = builder.append
                append(count, timestamp, key, value, headers)
            count += 1
        raw = self._fitting(builder.build(), records[first])
        yield FinishedBatch(self._topic, partition, raw, count)

    def _fitting(self, raw: bytearray, record: Record) -> bytearray:
        """A finished batch; if its only record is too large, one with a smaller record."""
        if self._shrink is None or len(raw) <= self._largest:
            return raw
        builder = self._builder()
        builder.append(0, self._timestamp_ms, *self._shrink(self._topic, record))
        lighter: bytearray = builder.build()
        return lighter

    def _builder(self) -> Any:
        # aiokafka's is written in C; building the same bytes in Python took three times as long.
        return DefaultRecordBatchBuilder(
            _MAGIC, self._codec, _TRANSACTIONAL, *_UNSTAMPED, self._max_bytes
        )


def _keyed(record: Record) -> Record:
    """A record that compaction keeps: without a key, its ChangeId is a unique one."""
    key, value, headers = record
    if key is not None:
        return record
    return change_key(dict(headers)[HEADER_CHANGE_ID]), value, headers


class Sendable:
    """A finished batch in the form of aiokafka's batch builders, as `AIOKafkaProducer.send_batch`
    expects."""

    __slots__ = ("_raw", "_records")

    def __init__(self, batch: FinishedBatch) -> None:
        raw = batch.raw
        self._raw = raw if isinstance(raw, bytearray) else bytearray(raw)
        self._records = batch.records

    def append(self, **_record: object) -> None:
        """Refuse a record, as a full builder does; the producer then begins another batch after this one."""

    def close(self) -> None:
        """Do nothing: the batch is closed."""

    def closed(self) -> bool:
        """Always true: nothing can be added, so it need not linger."""
        return True

    def record_count(self) -> int:
        """The number of sequence numbers it takes."""
        return self._records

    def size(self) -> int:
        """Bytes on the wire."""
        return len(self._raw)

    def _set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None:
        """Stamp it. The producer does so once, before the first send; a resend is the same."""
        _PRODUCER.pack_into(self._raw, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
        with memoryview(self._raw) as raw, raw[_CHECKED_FROM:] as checked:
            _CRC.pack_into(self._raw, _CRC_AT, calc_crc32c(checked))

    def _build(self) -> bytearray:
        return self._raw
