"""Serialized Java `HashMap` of byte arrays: Connect's file of offsets.

Invariant: byte for byte the output of `ObjectOutputStream` for one entry, so that no Java compiler
is needed. Source: Java Object Serialization Specification, 6 (the protocol), and
`HashMap.writeObject`.
"""

from __future__ import annotations

import struct

_HEADER = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _ARRAY, _REFERENCE = b"\x73", b"\x72", b"\x75", b"\x71"
_BLOCK, _END, _NULL = b"\x77", b"\x78", b"\x70"
_HAND_WRITTEN, _PLAIN = 3, 2
_HASH_MAP_UID, _BYTES_UID = 0x0507DAC1C31660D1, 0xACF317F8060854E0
_BYTES_CLASS = struct.pack(">I", 0x7E0002)
"""The handle of the third object written, after the map's class and the map itself."""
_CAPACITY, _THRESHOLD, _LOAD_FACTOR = 16, 12, 0.75


def serialized(key: bytes, value: bytes) -> bytes:
    """The bytes of a map with one entry."""
    fields = b"F" + _text("loadFactor") + b"I" + _text("threshold")
    map_class = _class("java.util.HashMap", _HASH_MAP_UID, _HAND_WRITTEN) + struct.pack(">h", 2)
    head = _OBJECT + map_class + fields + _END + _NULL
    sizes = struct.pack(">fi", _LOAD_FACTOR, _THRESHOLD)
    sizes += _BLOCK + b"\x08" + struct.pack(">ii", _CAPACITY, 1)
    array_class = _class("[B", _BYTES_UID, _PLAIN) + struct.pack(">h", 0) + _END + _NULL
    first = _ARRAY + array_class + _array(key)
    second = _ARRAY + _REFERENCE + _BYTES_CLASS + _array(value)
    return _HEADER + head + sizes + first + second + _END


def _class(name: str, uid: int, flags: int) -> bytes:
    return _CLASS + _text(name) + struct.pack(">QB", uid, flags)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _array(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
