"""The partition of a key, against the values in Kafka's own UtilsTest.testMurmur2 and against aiokafka."""

from random import Random

import pytest
from aiokafka.partitioner import murmur2

from connectors.kafka.record_batches import partition_of, partitions_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("partitions", [2, 3, 4, 12, 1000, 2**31])
def test_a_key_is_where_kafkas_own_clients_put_it(key: bytes, signed: int, partitions: int) -> None:
    assert partition_of(key, partitions) == (signed & 0x7FFFFFFF) % partitions


def test_a_record_without_a_key_is_in_the_first_partition() -> None:
    assert partition_of(None, 12) == 0


def test_an_empty_key_is_a_key() -> None:
    assert partition_of(b"", 1000) == (275646681 & 0x7FFFFFFF) % 1000


def test_one_partition_takes_everything() -> None:
    assert partition_of(b"21", 1) == 0


@pytest.mark.parametrize("length", range(70))
def test_keys_of_any_length_are_hashed_side_by_side_as_one_by_one(length: int) -> None:
    random = Random(length)
    keys = [random.randbytes(length) for _ in range(50)]
    keys += [b"\xff" * length, b"\0" * length]
    # The beginning they share ends within a word, at its end, or with the key.
    for shared in {0, length // 2, max(0, length - 1), length}:
        alike = [keys[0][:shared] + key[shared:] for key in keys]
        assert partitions_of(alike, 2**31) == [murmur2(key) & 0x7FFFFFFF for key in alike]
