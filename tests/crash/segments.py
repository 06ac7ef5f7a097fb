"""The producer of each batch of a partition, from the broker's own files.

Invariant: no client library is involved; the layout is Kafka's record batch, version 2
(https://kafka.apache.org/documentation/#recordbatch).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

Producer = tuple[int, int]
"""Its id and its epoch, as the broker gave them."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH = 12
"""Bytes before those that the length counts."""
_MAGIC = 2


def batches(path: Path) -> Iterator[tuple[int, int, Producer]]:
    """First and last offset of each whole batch in a segment file, and who wrote it."""
    data = path.read_bytes()
    at = 0
    while at + _HEADER.size <= len(data):
        first, length, _, magic, _, _, last, _, _, producer, epoch, _, _ = _HEADER.unpack_from(
            data, at
        )
        if length <= 0 or at + _AFTER_LENGTH + length > len(data):
            return  # it is being written, or the file is longer than what is in it
        assert magic == _MAGIC, f"{path} has a batch of version {magic}"
        yield first, first + last, (producer, epoch)
        at += _AFTER_LENGTH + length


def producers(folder: Path) -> dict[int, Producer]:
    """By offset, who wrote it; without what no producer with an id wrote."""
    found: dict[int, Producer] = {}
    for path in sorted(folder.glob("*.log")):
        for first, last, producer in batches(path):
            if producer[0] >= 0:
                found.update(dict.fromkeys(range(first, last + 1), producer))
    return found
