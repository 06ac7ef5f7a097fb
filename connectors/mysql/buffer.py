"""Integers, strings and compressed bytes of MySQL's binary protocol, read from a byte string.

Invariant: reading past the end raises IndexError or struct.error, which ``events`` turns into
MalformedEvent; nothing is ever padded or guessed. Source: MySQL internals manual, "Protocol
Basics".
"""

from __future__ import annotations

import zlib
from typing import TypeVar

from connectors.errors import CorruptEvent

_Bytes = TypeVar("_Bytes", bytes, memoryview)


def uint(data: bytes | memoryview, at: int, size: int) -> int:
    """The unsigned little-endian integer of ``size`` bytes at ``at``."""
    if at + size > len(data):
        raise IndexError(f"{size} bytes needed at {at}, of {len(data)}")
    return int.from_bytes(data[at : at + size], "little")


def packed(data: bytes, at: int) -> tuple[int, int]:
    """The length-encoded integer at ``at``, and its end."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise IndexError(f"no length-encoded integer begins with {first:#x}")
    return uint(data, at + 1, size), at + 1 + size


def read_bytes(data: _Bytes, at: int, size: int) -> tuple[_Bytes, int]:
    """Return exactly ``size`` bytes from ``at``, and their end."""
    end = at + size
    if end > len(data):
        raise IndexError(f"{size} bytes needed at {at}, of {len(data)}")
    return data[at:end], end


def packed_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The length-encoded byte string at ``at``, and its end."""
    size, at = packed(data, at)
    return read_bytes(data, at, size)


def bits(data: bytes, count: int, *, most_significant_first: bool = False) -> list[bool]:
    """Return the first ``count`` bits of ``data``; by default, the lowest bit of each byte comes first."""
    if len(data) * 8 < count:
        raise IndexError(f"{count} bits needed, of {len(data) * 8}")
    if most_significant_first:
        return [bool(data[n >> 3] & (0x80 >> (n & 7))) for n in range(count)]
    return [bool(data[n >> 3] & (1 << (n & 7))) for n in range(count)]


LARGEST = 1 << 30
"""Largest size of an event in bytes: the maximum of max_allowed_packet."""


def inflated(data: bytes, size: int, *, raw: bool = False) -> bytes:
    """Decompress zlib to ``size`` bytes, or raise CorruptEvent; ``raw``: without zlib's header and checksum."""
    if size > LARGEST:
        raise CorruptEvent(f"compressed bytes are not the {size} that were announced: too many")
    stream = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    try:
        # One additional byte is requested, to detect a stream that contains too much.
        found = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptEvent(f"compressed bytes cannot be read: {error}") from error
    if len(found) != size or not stream.eof or stream.unused_data:
        raise CorruptEvent(f"compressed bytes are not the {size} that were announced")
    return found
