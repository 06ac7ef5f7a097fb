"""Integers and strings of MySQL's binary protocol, read from a byte string.

Invariant: reading past the end raises IndexError or struct.error, which ``events`` turns into
MalformedEvent; nothing is ever padded or guessed. Source: MySQL internals manual, "Protocol
Basics".
"""

from __future__ import annotations

from typing import TypeVar

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
    """``size`` bytes from ``at``, all of them, and their end."""
    end = at + size
    if end > len(data):
        raise IndexError(f"{size} bytes needed at {at}, of {len(data)}")
    return data[at:end], end


def packed_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The length-encoded byte string at ``at``, and its end."""
    size, at = packed(data, at)
    return read_bytes(data, at, size)


def bits(data: bytes, count: int, *, most_significant_first: bool = False) -> list[bool]:
    """The first ``count`` bits of ``data``, each byte from its low bit by default."""
    if len(data) * 8 < count:
        raise IndexError(f"{count} bits needed, of {len(data) * 8}")
    if most_significant_first:
        return [bool(data[n >> 3] & (0x80 >> (n & 7))) for n in range(count)]
    return [bool(data[n >> 3] & (1 << (n & 7))) for n in range(count)]
