"""The broker's own files, read by hand: whose a batch is, and what is cut off is left alone."""

from __future__ import annotations

from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.crash.segments import producers


def batch(first: int, count: int, producer: tuple[int, int]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        batch_size=10_000,
    )
    for n in range(count):
        builder.append(n, timestamp=1, key=b"k", value=b"v", headers=[])
    data = bytearray(builder.build())
    data[0:8] = first.to_bytes(8, "big")
    return bytes(data)


def test_each_offset_has_the_producer_of_its_batch(tmp_path: Path) -> None:
    one, other, nobody = (7, 0), (7, 1), (-1, -1)
    (tmp_path / "00.log").write_bytes(batch(0, 2, one) + batch(2, 1, other))
    (tmp_path / "03.log").write_bytes(batch(3, 1, nobody) + batch(4, 2, other) + batch(6, 1, one))
    assert producers(tmp_path) == {0: one, 1: one, 2: other, 4: other, 5: other, 6: one}


def test_a_batch_that_is_being_written_is_not_visible_yet(tmp_path: Path) -> None:
    whole = batch(0, 2, (1, 1))
    for cut in (len(whole) - 1, 30, 3):
        (tmp_path / "00.log").write_bytes(whole + whole[:cut])
        assert list(producers(tmp_path)) == [0, 1]
    (tmp_path / "00.log").write_bytes(whole + bytes(200))
    assert list(producers(tmp_path)) == [0, 1]
