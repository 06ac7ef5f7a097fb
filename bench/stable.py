"""Last stable offsets of topics, which bound what readers of committed records see.

Invariant: one prepared request covers every partition, so that polling each 50 ms has no measurable
cost. Source: Kafka's ListOffsets, version 2. The broker is the only one of its cluster.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Self

from bench.errors import BenchError

_LIST_OFFSETS, _VERSION, _READ_COMMITTED, _LATEST = 2, 2, 1, -1
_NOT_YET = {3, 5, 6}
"""Unknown topic, no leader, not the leader: a topic that is being created."""
_PARTITION = struct.Struct(">ihqq")


class StableOffsets:
    """The sum of the last stable offsets of some topics; a missing topic counts as empty."""

    def __init__(self, address: str, partitions: Mapping[str, int]) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._request = _request(partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def total(self) -> int:
        """Records and control records that are visible now."""
        self._socket.sendall(self._request)
        (size,) = struct.unpack(">i", self._read(4))
        return _sum(self._read(size))

    def _read(self, size: int) -> bytes:
        answer = bytearray()
        while len(answer) < size:
            piece = self._socket.recv(size - len(answer))
            if not piece:
                raise BenchError("the broker closed the connection; its log is in the run's folder")
            answer += piece
        return bytes(answer)


def _request(partitions: Mapping[str, int]) -> bytes:
    body = struct.pack(">hhih", _LIST_OFFSETS, _VERSION, 1, -1)
    body += struct.pack(">ibi", -1, _READ_COMMITTED, len(partitions))
    for topic, count in partitions.items():
        name = topic.encode()
        body += struct.pack(">h", len(name)) + name + struct.pack(">i", count)
        body += b"".join(struct.pack(">iq", number, _LATEST) for number in range(count))
    return struct.pack(">i", len(body)) + body


def _sum(answer: bytes) -> int:
    at, total = 8, 0  # correlation id, throttle time
    (topics,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", answer, at)
        at += 2 + length
        (count,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(count):
            number, error, _, offset = _PARTITION.unpack_from(answer, at)
            at += _PARTITION.size
            if error and error not in _NOT_YET:
                raise BenchError(f"the broker gives error {error} for partition {number}")
            total += 0 if error else offset
    return total
