from __future__ import annotations

from aiokafka.record import MemoryRecords

from connectors.kafka.record_batches import BatchWriter, PlacedWriter, partition_of


def test_a_place_chooses_the_partition_and_is_in_no_record() -> None:
    batches = BatchWriter("t", partitions=7, compression=None, timestamp_ms=0)
    writer = PlacedWriter(batches)
    writer.append(
        b'{"id":1}\0{"c":5}', b"v", [("change_id", b"x"), ("newkey", b'{"id":2}\0{"c":6}')]
    )
    writer.append(None, b"v", [])
    batches.append(b'{"id":3}', b"v", [])
    found: dict[bytes | None, tuple[int, object]] = {}
    for batch in batches.finished():
        held = MemoryRecords(bytes(batch.raw))
        while (read := held.next_batch()) is not None:
            found |= {record.key: (batch.partition, record.headers) for record in read}
    assert found == {
        b'{"id":1}': (
            partition_of(b'{"c":5}', 7),
            [("change_id", b"x"), ("newkey", b'{"id":2}')],
        ),
        None: (0, []),
        b'{"id":3}': (partition_of(b'{"id":3}', 7), []),
    }


def test_places_do_not_survive_the_records_that_they_are_for() -> None:
    batches = BatchWriter("t", partitions=7, compression=None, timestamp_ms=0)
    PlacedWriter(batches).append(b'{"id":1}\0{"c":5}', b"v", [])
    batches.finished()
    batches.append(b'{"id":3}', b"v", [])
    (batch,) = batches.finished()
    assert batch.partition == partition_of(b'{"id":3}', 7)
