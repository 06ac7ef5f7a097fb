"""Finished batches: read back by aiokafka's reader, and changed only in the fields that the protocol names."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from connectors.kafka.record_batches import (
    BatchWriter,
    FinishedBatch,
    Headers,
    Record,
    Sendable,
    partition_of,
)

CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW = 1_700_000_000_123


def writer(**options: Any) -> BatchWriter:
    settings = {"partitions": 1, "compression": None, "timestamp_ms": NOW}
    return BatchWriter("topic", **(settings | options))


def row(number: int) -> Record:
    headers = [("change_id", b"3e11fa47-71ca-11e1-9e33-c80aa9429562:%d#0" % number)]
    return b'{"id":%d}' % number, b'{"after":{"id":%d,"name":"somebody"}}' % number, headers


def stamped(
    batch: FinishedBatch, *, producer: int = 7, epoch: int = 3, sequence: int = 40
) -> bytes:
    """The bytes that aiokafka's producer would put into its request."""
    sendable = Sendable(batch)
    sendable._set_producer_state(producer, epoch, sequence)
    return bytes(sendable._build())


def records(raw: bytes | bytearray) -> list[Record]:
    return [(record.key, record.value, record.headers) for record in DefaultRecordBatch(bytes(raw))]


def all_records(batches: Iterable[FinishedBatch]) -> list[Record]:
    return [record for batch in batches for record in records(batch.raw)]


@pytest.mark.parametrize("compression", CODECS)
def test_what_was_written_is_what_kafka_reads(compression: str | None) -> None:
    several: Headers = [("a", b""), ("ü", b"\xff"), ("a", b"again")]
    written: list[Record] = [
        *map(row, range(300)),
        (None, b"no key", []),
        (b"tombstone", None, several),
        (b"", b"", []),
    ]
    one = writer(compression=compression)
    for key, value, headers in written:
        one.append(key, value, headers)
    (batch,) = one.finished()
    raw = DefaultRecordBatch(bytes(batch.raw))
    assert (raw.magic, raw.is_transactional, raw.compression_type) == (2, True, CODECS[compression])
    assert (raw.first_timestamp, raw.max_timestamp, raw.timestamp_type) == (NOW, NOW, 0)
    assert raw.last_offset_delta == len(written) - 1 == batch.records - 1
    assert [record.offset for record in raw] == list(range(len(written)))
    assert records(batch.raw) == written


@pytest.mark.parametrize("compression", CODECS)
def test_a_stamp_changes_the_producers_fields_and_the_checksum_alone(
    compression: str | None,
) -> None:
    one = writer(compression=compression)
    one.extend(map(row, range(100)))
    (batch,) = one.finished()
    before = bytes(batch.raw)
    after = stamped(batch)
    changed = {at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    assert changed <= {*range(17, 21), *range(43, 57)}
    raw = DefaultRecordBatch(after)
    assert (raw.producer_id, raw.producer_epoch, raw.base_sequence) == (7, 3, 40)
    assert raw.validate_crc()
    assert not DefaultRecordBatch(after[:-1] + bytes([after[-1] ^ 1])).validate_crc()


def test_a_batch_sent_again_is_the_same_to_the_byte() -> None:
    one = writer()
    one.append(*row(1))
    sendable = Sendable(one.finished()[0])
    sendable._set_producer_state(7, 3, 2**31 - 1)
    first = bytes(sendable._build())
    assert bytes(sendable._build()) == first
    assert DefaultRecordBatch(first).base_sequence == 2**31 - 1


def test_bytes_that_cannot_be_written_to_are_stamped_in_a_copy() -> None:
    one = writer()
    one.append(*row(1))
    (batch,) = one.finished()
    frozen = batch._replace(raw=bytes(batch.raw))
    assert stamped(frozen) == stamped(batch)
    assert DefaultRecordBatch(frozen.raw).producer_id == -1


def test_a_batch_is_the_same_in_another_process() -> None:
    one = writer(compression="lz4")
    one.extend(map(row, range(50)))
    (batch,) = one.finished()
    again = pickle.loads(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
    assert again == batch
    assert stamped(again) == stamped(batch)


def test_no_batch_is_larger_than_allowed_and_none_is_wastefully_small() -> None:
    one = writer(max_bytes=4096)
    written = [row(number) for number in range(1000)]
    one.extend(written)
    batches = one.finished()
    assert len(batches) > 10
    assert max(len(batch.raw) for batch in batches) <= 4096
    assert min(len(batch.raw) for batch in batches[:-1]) > 4096 - 200
    assert all_records(batches) == written
    assert sum(batch.records for batch in batches) == 1000


def test_a_record_that_is_too_large_is_alone_in_its_batch() -> None:
    huge: Record = (b"k", os.urandom(5000), [])
    for written in ([row(1), huge, row(2)], [huge, huge], [huge]):
        one = writer(max_bytes=4096)
        one.extend(written)
        batches = one.finished()
        assert [batch.records for batch in batches] == [1] * len(written)
        assert all_records(batches) == written


def test_each_record_is_in_its_keys_partition_in_order() -> None:
    one = writer(partitions=4, max_bytes=2048)
    written = [row(number % 90) for number in range(500)]
    written += [(None, b"%d" % number, []) for number in range(50)]
    one.extend(written)
    batches = one.finished()
    assert {batch.partition for batch in batches} == {0, 1, 2, 3}
    for partition in range(4):
        here = [batch for batch in batches if batch.partition == partition]
        expected = [record for record in written if partition_of(record[0], 4) == partition]
        assert all_records(here) == expected


def test_every_partition_has_a_batch_before_any_has_its_second() -> None:
    one = writer(partitions=3, max_bytes=1024)
    one.extend(row(number) for number in range(200))
    batches = one.finished()
    assert {batch.partition for batch in batches[:3]} == {0, 1, 2}
    assert {batch.partition for batch in batches[3:6]} == {0, 1, 2}


def test_nothing_makes_no_batch_and_a_writer_begins_again_when_it_is_finished() -> None:
    for partitions in (1, 3):
        one = writer(partitions=partitions)
        assert one.finished() == []
        one.append(*row(1))
        assert all_records(one.finished()) == [row(1)]
        assert one.finished() == []


def test_lz4_is_compressed_at_the_level_that_costs_little() -> None:
    from aiokafka.codec import lz4_encode

    one, plain = writer(compression="lz4"), writer()
    for each in (one, plain):
        each.extend(map(row, range(500)))
    (batch,), (uncompressed,) = one.finished(), plain.finished()
    assert bytes(batch.raw[61:]) == lz4_encode(bytes(uncompressed.raw[61:]), level=1)


def test_a_finished_batch_takes_no_more_records() -> None:
    one = writer()
    one.extend(map(row, range(5)))
    sendable = Sendable(one.finished()[0])
    assert sendable.closed()
    assert sendable.record_count() == 5
    assert sendable.append(timestamp=None, key=b"k", value=b"v", headers=[]) is None  # type: ignore[func-returns-value]
    assert sendable.size() == len(sendable._build())


def test_a_record_that_is_too_large_is_replaced_where_it_stands_and_no_other_is_looked_at() -> None:
    asked: list[Record] = []

    def shrink(topic: str, record: Record) -> Record:
        assert topic == "topic"
        asked.append(record)
        return record[0], b"light", [*record[2], ("lighter", b"yes")]

    large: Record = (b"k", os.urandom(5000), [("a", b"1")])
    dense: Record = (b"c", b"x" * 5000, [])
    for compression, expected in ((None, 2), ("lz4", 1)):
        asked.clear()
        one = writer(max_bytes=1000, largest=2000, shrink=shrink, compression=compression)
        one.extend([row(0), row(1), large, row(2), dense, row(3)])
        _, *found = all_records(one.finished())
        assert len(asked) == expected
        assert found[1] == (b"k", b"light", [("a", b"1"), ("lighter", b"yes")])
        assert found[3] == ((b"c", b"light", [("lighter", b"yes")]) if expected == 2 else dense)
        assert [found[0], found[2], found[4]] == [row(1), row(2), row(3)]


def test_without_a_way_to_lighten_it_a_record_stays_as_it_is() -> None:
    large: Record = (b"k", os.urandom(5000), [])
    one = writer(max_bytes=1000, largest=2000)
    one.extend([large])
    assert all_records(one.finished()) == [large]


def test_on_a_compacted_topic_a_record_without_a_key_has_its_change_id_and_stays_in_partition_0() -> (
    None
):
    truncated: Record = (None, b'{"op":"t"}', [("change_id", b"uuid:5#0")])
    one = writer(partitions=4, keyed=True)
    one.extend([row(1), truncated])
    found = {batch.partition: records(batch.raw) for batch in one.finished()}
    assert (b'{"change_id":"uuid:5#0"}', b'{"op":"t"}', [("change_id", b"uuid:5#0")]) in found[0]
    assert row(1) in found[partition_of(row(1)[0], 4)]
    one.append(*truncated)
    assert records(one.finished()[0].raw)[0][0] is not None
    other = writer()
    other.append(*truncated)
    assert records(other.finished()[0].raw)[0][0] is None
