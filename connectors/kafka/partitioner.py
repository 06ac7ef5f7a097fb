"""Which partition a key belongs to, by the rule of Kafka's own clients.

The law: the same key is in the same partition for whoever computes it; no key means partition 0.
Source: org.apache.kafka.clients.producer.internals.BuiltInPartitioner (murmur2, sign bit off, modulo).
"""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition, from 0, of a key in a topic of that many partitions."""
    return 0 if key is None or partitions == 1 else _hashed(key) % partitions


@lru_cache(maxsize=65536)
def _hashed(key: bytes) -> int:
    # A few microseconds each in Python; keys that change often are remembered.
    return int(murmur2(key)) & 0x7FFFFFFF
