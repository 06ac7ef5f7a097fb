"""The partition of any key is that of aiokafka's hash."""

from aiokafka.partitioner import murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.kafka.record_batches import partition_of, partitions_of


@settings(max_examples=300, print_blob=True)
@given(st.binary(max_size=200))
def test_any_key_is_hashed_as_aiokafka_hashes_it(key: bytes) -> None:
    assert partition_of(key, 2**31) == murmur2(key) & 0x7FFFFFFF


@settings(max_examples=100, print_blob=True)
@given(
    st.lists(st.none() | st.binary(max_size=24), max_size=60),
    st.sampled_from([1, 2, 3, 4, 12, 1000]),
)
def test_many_keys_are_where_each_of_them_is(keys: list[bytes | None], partitions: int) -> None:
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]
