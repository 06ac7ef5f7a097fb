"""Log file of a partition after compaction: transactions of one record, and markers.

A journal of many days takes days to write through a broker. A broker that starts with such a file
rebuilds its indexes. Format: record batch version 2 in Kafka's protocol documentation.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from aiokafka.record.util import calc_crc32c, encode_varint

_HEAD = struct.Struct(">qiib")
"""Base offset, length of the rest, leader epoch, magic."""
_BODY = struct.Struct(">hiqqqhii")
"""Attributes, last offset delta, first and maximum time, producer, its epoch, base sequence, records."""
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_COMMIT_KEY, _COMMIT_VALUE = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)


def record(key: bytes, value: bytes) -> bytes:
    """The only record of a batch."""
    body = bytearray(b"\0\0\0")
    for part in (key, value):
        encode_varint(len(part), body.append)
        body += part
    body.append(0)
    length = bytearray()
    encode_varint(len(body), length.append)
    return bytes(length + body)


_MARKER = record(_COMMIT_KEY, _COMMIT_VALUE)


class LogFile:
    """Writes the batches of one partition from an offset on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.offset = 0
        """The offset of the next batch; compaction leaves gaps."""
        self.ts_ms = 1_790_000_000_000

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def put(self, producer: int, key: bytes, value: bytes) -> int:
        """Write a transactional record; return its offset."""
        self._batch(_TRANSACTIONAL, producer, 0, record(key, value))
        return self.offset - 1

    def commit(self, producer: int) -> None:
        """Write the marker of a commit."""
        self._batch(_TRANSACTIONAL | _CONTROL, producer, -1, _MARKER)

    def _batch(self, attributes: int, producer: int, sequence: int, content: bytes) -> None:
        ts_ms = self.ts_ms
        body = _BODY.pack(attributes, 0, ts_ms, ts_ms, producer, 0, sequence, 1) + content
        crc = calc_crc32c(body)
        self._file.write(
            _HEAD.pack(self.offset, len(body) + 9, 0, 2) + crc.to_bytes(4, "big") + body
        )
        self.offset += 1
