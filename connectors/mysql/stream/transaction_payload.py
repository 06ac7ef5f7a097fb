"""A compressed transaction, decompressed in pieces.

Invariant: whatever size a payload expands to, only one piece is in memory. Content that differs from
the announced size is refused before more of it is emitted. Source:
libs/mysql/binlog/event/codecs/binary.cpp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from connectors.errors import CorruptEvent
from connectors.mysql.binlog.chunk_context import rows_end
from connectors.mysql.binlog.events import HEADER_SIZE
from connectors.mysql.buffer import LARGEST, packed, packed_bytes

_FIELDS = 1024
"""Upper bound in bytes of the fields before a payload's content."""
_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = 1, 2, 3
_ZSTD, _NONE = 0, 255
_READ = 128 * 1024
_SHORT = 1024
_EVENT_SIZE = struct.Struct("<9xI").unpack_from


@dataclass(frozen=True, slots=True)
class Payload:
    """The content of a TRANSACTION_PAYLOAD event, not yet decompressed."""

    content: memoryview
    algorithm: int
    size: int
    """Bytes after decompression, as announced."""

    @classmethod
    def parse(cls, body: memoryview) -> Payload:
        """Parse the fields before the content; raise IndexError if they are malformed."""
        head = bytes(body[:_FIELDS])
        fields: dict[int, int] = {}
        at = 0
        while head[at] != 0:
            kind, at = packed(head, at)
            value, at = packed_bytes(head, at)
            fields[kind] = packed(value, 0)[0]
        content = body[at + 1 : at + 1 + fields[_SIZE]]
        if len(content) != fields[_SIZE]:
            raise IndexError(f"a payload of {fields[_SIZE]} bytes has {len(content)}")
        return cls(
            content, fields.get(_COMPRESSION, _NONE), fields.get(_UNCOMPRESSED_SIZE, len(content))
        )

    def first(self) -> bytes:
        """Return the first event if it is short; else empty bytes."""
        data = bytes(next(self._parts(_SHORT), b""))
        size = _EVENT_SIZE(data)[0] if len(data) >= HEADER_SIZE else 0
        return data[:size] if HEADER_SIZE <= size <= len(data) else b""

    def pieces(self, enough: int) -> Iterator[bytes]:
        """Yield whole events, in pieces of about ``enough`` bytes; each piece but the last ends after rows."""
        data = bytearray()
        whole = looked = 0
        for part in self._parts():
            data += part
            whole = _whole(data, whole)
            if len(data) < enough:
                continue
            if end := _cut(data, looked, whole, enough=enough):
                yield bytes(data[:end])
                del data[:end]
                whole, looked = whole - end, 0
            else:
                looked = whole
                if looked > LARGEST:
                    raise CorruptEvent(f"a compressed payload has {looked} bytes without rows")
        if whole != len(data):
            raise CorruptEvent("a compressed payload ends within an event")
        if data:
            yield bytes(data)

    def _parts(self, read: int = _READ) -> Iterator[bytes | memoryview]:
        if self.algorithm == _NONE:
            for at in range(0, len(self.content), read):
                yield self.content[at : at + read]
            return
        if self.algorithm != _ZSTD:
            raise CorruptEvent(f"a payload is compressed by an unknown algorithm, {self.algorithm}")
        yield from self._decompressed(read)

    def _decompressed(self, read: int) -> Iterator[bytes]:
        # The import is slow, and most servers never compress.
        import zstandard

        total = 0
        try:
            with zstandard.ZstdDecompressor().stream_reader(self.content) as reader:
                while part := reader.read(read):
                    total += len(part)
                    if total > self.size:
                        break
                    yield part
        except zstandard.ZstdError as error:
            raise CorruptEvent(f"a compressed payload cannot be read: {error}") from error
        if total != self.size:
            much = "more" if total > self.size else f"{total}"
            raise CorruptEvent(f"a compressed payload has {much} bytes, {self.size} were announced")


def _whole(data: bytearray, at: int) -> int:
    """Return the end of the last complete event; ``at``: the end of an earlier event."""
    while len(data) - at >= HEADER_SIZE:
        size = _EVENT_SIZE(data, at)[0]
        if not HEADER_SIZE <= size <= LARGEST:
            raise CorruptEvent(f"an event of a compressed payload states {size} bytes")
        if at + size > len(data):
            break
        at += size
    return at


def _cut(data: bytearray, looked: int, whole: int, *, enough: int) -> int | None:
    """Return the offset to cut at, or None; the data up to ``looked`` contains no rows."""
    with memoryview(data) as view:
        return rows_end(view, looked, whole, prefix=0, enough=enough)
