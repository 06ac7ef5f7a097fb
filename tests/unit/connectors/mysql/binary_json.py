"""JSON documents in MySQL's binary form, as its json_binary.cc writes them: for tests that need some."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

_INTEGERS = ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q"))


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of an SQL type inside a document."""

    kind: int
    raw: bytes


def document(value: Any, *, large: bool = False) -> bytes:
    """A whole document; ``large`` has all its containers in the format of those above 64 KiB."""
    kind, raw = _value(value, large)
    return bytes([kind]) + raw


def _value(value: Any, large: bool) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        raw = value.encode()
        return 12, _length(len(raw)) + raw
    if isinstance(value, Opaque):
        return 15, bytes([value.kind]) + _length(len(value.raw)) + value.raw
    if isinstance(value, dict):
        ordered = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        names = [name.encode() for name in ordered]
        return int(large), _container(names, [value[name] for name in ordered], large)
    return 2 + int(large), _container(None, value, large)


def _integer(value: int) -> tuple[int, bytes]:
    for kind, format_ in _INTEGERS:
        try:
            return kind, struct.pack(format_, value)
        except struct.error:
            continue
    raise ValueError(value)


def _container(names: list[bytes] | None, values: list[Any], large: bool) -> bytes:
    width, offset = (4, "<I") if large else (2, "<H")
    head = 2 * width + len(values) * (1 + width + (0 if names is None else width + 2))
    keys, key_bytes = b"", b""
    for name in names or ():
        keys += struct.pack(offset, head + len(key_bytes)) + struct.pack("<H", len(name))
        key_bytes += name
    entries, behind = b"", b""
    for value in values:
        kind, raw = _value(value, large)
        if kind in (4, 5, 6) or (large and kind in (7, 8)):
            entries += bytes([kind]) + raw.ljust(width, b"\0")
        else:
            position = head + len(key_bytes) + len(behind)
            entries += bytes([kind]) + struct.pack(offset, position)
            behind += raw
    size = head + len(key_bytes) + len(behind)
    count = struct.pack(offset, len(values)) + struct.pack(offset, size)
    return count + keys + entries + key_bytes + behind


def _length(size: int) -> bytes:
    raw = b""
    while size > 0x7F:
        raw += bytes([size & 0x7F | 0x80])
        size >>= 7
    return raw + bytes([size])
