"""Finished record batches: built and compressed in any process, sent by a destination's one producer.

This module also has the partition of a key, and the writers of records that formats see.

Invariant: a batch is finished except for its sender's stamp. Producer id, epoch and base sequence
are stamped into its header when it is first sent, and stay the same whenever it is sent again; its
records are never touched. Source: KIP-98 and https://kafka.apache.org/documentation/#recordbatch
(magic 2); for what aiokafka's producer needs of a batch,
`aiokafka.producer.message_accumulator.BatchBuilder`, version 0.14.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple, Protocol

from aiokafka import codec
from aiokafka.record import MemoryRecords, default_records
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from wire.changes import change_key
from wire.records import HEADER_CHANGE_ID

Headers = list[tuple[str, bytes]]
Record = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""
Shrink = Callable[[str, Record], Record]
"""Receives a topic and a record that is too large for it; returns the record's replacement."""

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


class FinishedBatch(NamedTuple):
    """A record batch, finished except for its producer's stamp; it is passed between processes as it is."""

    topic: str
    partition: int
    raw: bytes | bytearray
    """The whole batch with its header. A bytearray is stamped in place, without a copy."""
    records: int


class BatchWriter:
    """Gathers records of one topic and makes transactional batches of them.

    A batch is closed before it exceeds ``max_bytes`` uncompressed; a record larger than that is alone
    in its batch. If such a finished batch exceeds ``largest`` bytes, as a broker counts them, ``shrink``
    returns a replacement of the record; without ``shrink`` the broker refuses the batch. All records have
    the same timestamp. With ``keyed``, for compacted topics, a record without a key gets its ChangeId as
    its key.
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
        """By the index of a record: the bytes that choose its partition in place of its key."""

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record. Its key chooses its partition; without a key it goes to the first."""
        self._records.append((key, value, headers))

    def append_placed(
        self, place: bytes, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Add a record whose partition is chosen by ``place``, as if ``place`` were its key."""
        self._placed[len(self._records)] = place
        self._records.append((key, value, headers))

    def extend(self, records: Iterable[Record]) -> None:
        """Add many records, without a call of `append` for each."""
        self._records.extend(records)

    def finished(self) -> list[FinishedBatch]:
        """Return the batches of all added records, in order within each partition, and empty the writer.

        The first batches of all partitions come first, then the second ones, and so on: a request
        to a broker takes one batch of each partition, so this order needs the fewest requests.
        """
        # Nothing is encoded until now: hashing many keys together takes a tenth of the time.
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
        """The finished batch; if ``record``, its only record, is too large, a batch with its replacement."""
        if self._shrink is None or len(raw) <= self._largest:
            return raw
        builder = self._builder()
        builder.append(0, self._timestamp_ms, *self._shrink(self._topic, record))
        lighter: bytearray = builder.build()
        return lighter

    def _builder(self) -> Any:
        # aiokafka's builder is written in C; building the same bytes in Python took three times as long.
        return DefaultRecordBatchBuilder(
            _MAGIC, self._codec, _TRANSACTIONAL, *_UNSTAMPED, self._max_bytes
        )


def _keyed(record: Record) -> Record:
    """A record that compaction keeps: if it has no key, its ChangeId becomes its key, which is unique."""
    key, value, headers = record
    if key is not None:
        return record
    return change_key(dict(headers)[HEADER_CHANGE_ID]), value, headers


class Sendable:
    """A finished batch with the methods of aiokafka's batch builders, for `AIOKafkaProducer.send_batch`."""

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
        """Stamp the batch. The producer does so once, before the first send; it sends the same bytes again."""
        _PRODUCER.pack_into(self._raw, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
        with memoryview(self._raw) as raw, raw[_CHECKED_FROM:] as checked:
            _CRC.pack_into(self._raw, _CRC_AT, calc_crc32c(checked))

    def _build(self) -> bytearray:
        return self._raw


# The partition of a key, by the rule of Kafka's own clients.
#
# Invariant: the same key has the same partition in every client; no key means partition 0.
# Source: org.apache.kafka.clients.producer.internals.BuiltInPartitioner (murmur2, sign bit off,
# modulo).


_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORTH_LANES: Final = 6
"""The number of keys of one length from which hashing them side by side is cheaper than one by one."""


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition, from 0, of a key in a topic of that many partitions."""
    return 0 if key is None or partitions == 1 else (_hash(key) & _POSITIVE) % partitions


def partitions_of(keys: Sequence[bytes | None], partitions: int) -> list[int]:
    """The result of `partition_of` for each key, in a tenth of the time if many keys are equally long."""
    found = [0] * len(keys)
    if partitions == 1:
        return found
    by_length: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            by_length.setdefault(len(key), []).append(index)
    for indexes in by_length.values():
        alike: list[bytes] = [keys[index] for index in indexes]  # type: ignore[misc] # none is None
        for index, hashed in zip(indexes, _hashes(alike), strict=True):
            found[index] = (hashed & _POSITIVE) % partitions
    return found


def _hash(key: bytes) -> int:
    """Murmur2 of one key."""
    length = len(key)
    whole = length & ~3
    state = _mixed(_SEED ^ length, key[:whole])
    if length > whole:
        state = (state ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _WORD
    state = (state ^ state >> 13) * _FACTOR & _WORD
    return state ^ state >> 15


def _mixed(state: int, words: bytes) -> int:
    """The state after some whole words of four bytes."""
    for word in struct.unpack(f"<{len(words) // 4}I", words):
        word = word * _FACTOR & _WORD
        state = (state * _FACTOR ^ (word ^ word >> 24) * _FACTOR) & _WORD
    return state


def _hashes(keys: list[bytes]) -> Sequence[int]:
    """Murmur2 of keys that are equally long.

    Python computes on integers of any width, so one integer holds a lane of 64 bits for each key:
    its state in the lower half, and room for the product of two words in the upper one, which
    ``lanes`` clears afterwards. Each operation is then one pass over all keys. The common prefix of
    all keys is mixed in once.
    """
    count, length = len(keys), len(keys[0])
    if count < _WORTH_LANES:
        return [_hash(key) for key in keys]
    whole = length & ~3
    common = _common(min(keys), max(keys)) & ~3
    lanes = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    state = int.from_bytes(
        _mixed(_SEED ^ length, keys[0][:common]).to_bytes(8, "little") * count, "little"
    )
    joined = b"".join(keys)
    for start in range(common, whole, 4):
        word = _column(joined, length, start, start + 4) * _FACTOR & lanes
        state = (state * _FACTOR ^ (word ^ (word >> 24 & lanes)) * _FACTOR) & lanes
    if length > whole:
        state = (state ^ _column(joined, length, whole, length)) * _FACTOR & lanes
    state = (state ^ (state >> 13 & lanes)) * _FACTOR & lanes
    state ^= state >> 15 & lanes
    return struct.unpack(f"<{count}Q", state.to_bytes(8 * count, "little"))


def _common(first: bytes, last: bytes) -> int:
    """The length of the keys' common prefix, given the first and the last in their order."""
    differing = int.from_bytes(first, "big") ^ int.from_bytes(last, "big")
    return len(first) - (differing.bit_length() + 7) // 8


def _column(joined: bytes, length: int, start: int, end: int) -> int:
    """The bytes from start to end of each key, as a word in its lane."""
    column = bytearray(8 * (len(joined) // length))
    for index in range(start, end):
        column[index - start :: 8] = joined[index::length]
    return int.from_bytes(column, "little")


# Compression levels for aiokafka, which has no setting for them; LZ4 at level 9 costs more than
# all of the rest.
#
# Invariant: compressed data can be read by any client of Kafka; only size is traded for time.
# Source: KIP-390 (levels). Measured, rows of 600 bytes: LZ4 takes 5.0 µs a row at level 9 and 0.5
# µs at level 1, to 21 % and 23 % of the size; zstd 1.3 and 0.9 at levels 3 and 1; gzip 24 and 9
# at levels 9 and 6.


_ENCODERS: Final = {
    "lz4_encode": partial(codec.lz4_encode, level=1),
    "zstd_encode": partial(codec.zstd_encode, level=1),
    "gzip_encode": partial(codec.gzip_encode, compresslevel=6),
}


def compress_fast() -> None:
    """Give aiokafka's batch builder these levels, for this whole process; a second call changes nothing."""
    # If aiokafka was installed with its compiled builder, that builder is in use; its module has
    # another name.
    builder = sys.modules[default_records.DefaultRecordBatchBuilder.__module__]
    for name, encode in _ENCODERS.items():
        assert hasattr(builder, name), f"aiokafka's builder no longer calls {name}"
        setattr(builder, name, encode)


compress_fast()


# Writers of records as formats see them: a plain writer, and a writer that chooses partitions by
# more than the key.
#
# Invariant: a format passes keys on as the row decoder made them; the bytes that choose a partition
# are in no record.


PLACE: Final = "\0"
"""Separates a key from the bytes that choose the partition in its place; no JSON contains the separator."""
_PLACE: Final = PLACE.encode()


class RecordWriter(Protocol):
    """Takes the records of one topic, in their order."""

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record."""


class PlacedWriter:
    """A writer for keys that may be followed by PLACE and the bytes that choose their partition."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record; its key and headers end before PLACE."""
        own, separator, place = (key or b"").partition(_PLACE)
        if not separator:
            self._writer.append(key, value, headers)
            return
        bare = [(name, text.partition(_PLACE)[0]) for name, text in headers]
        self._writer.append_placed(place, own, value, bare)


# The records of a finished batch, read back as a consumer would receive them.


def finished_records(batch: FinishedBatch) -> Iterator[Record]:
    """Yield key, value and headers of each record, in order."""
    stored = MemoryRecords(bytes(batch.raw))
    while (one := stored.next_batch()) is not None:
        for record in one:
            yield record.key, record.value, list(record.headers)
