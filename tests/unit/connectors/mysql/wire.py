"""Hand-made events as a server sends them: in files, with checksums, in packets."""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass, field

import zstandard

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MARIADB_GTID, QUERY_COMPRESSED, ANNOTATE = 162, 165, 160
SPLIT = 0xFFFFFF


def event(kind: int, body: bytes, *, end_pos: int = 0, checksum: bool = False) -> bytes:
    """An event with its header, and its CRC32 if it has one."""
    size = 19 + len(body) + 4 * checksum
    data = struct.pack("<IBIIIH", 1_795_000_000, kind, 7, size, end_pos, 0) + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def packets(data: bytes, number: int = 0) -> bytes:
    """An event as it comes over the wire."""
    content, found = b"\0" + data, b""
    while True:
        part, content = content[:SPLIT], content[SPLIT:]
        found += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
        number += 1
        if len(part) < SPLIT:
            return found


def gtid_body(number: int) -> bytes:
    return b"\1" + uuid.UUID(SERVER).bytes + struct.pack("<Q", number) + b"\2" + bytes(23)


def query_body(sql: str, *, database: str = "shop", status: bytes = b"\0\0\0\0\0") -> bytes:
    head = struct.pack("<IIBHH", 12, 0, len(database), 0, len(status))
    return head + status + database.encode() + b"\0" + sql.encode()


def compressed_query_body(sql: str) -> bytes:
    text = len(sql).to_bytes(2, "big") + zlib.compress(sql.encode())
    return query_body("") + b"\x82" + text


def map_body(table: int) -> bytes:
    return table.to_bytes(6, "little") + b"\0\0\4shop\0\1t\0\1\3\0\0"


def rows_body(table: int, size: int, *, ends: bool = True) -> bytes:
    return table.to_bytes(6, "little") + struct.pack("<H", ends) + bytes(size)


def mariadb_gtid_body(sequence: int, flags: int) -> bytes:
    return struct.pack("<QIB", sequence, 0, flags) + bytes(6)


def format_body(*, checksum: bool) -> bytes:
    return struct.pack("<H50sIB", 4, b"9.7.0", 0, 19) + bytes(42) + bytes([checksum])


def payload_body(inner: bytes, *, claimed: int | None = None, algorithm: int = 0) -> bytes:
    """A compressed transaction, whose size is in zstd's frame unless the test overrides it."""
    content = zstandard.ZstdCompressor().compress(inner) if algorithm == 0 else inner
    fields = [(2, algorithm), (3, len(inner) if claimed is None else claimed), (1, len(content))]
    head = b"".join(bytes([kind, 9, 0xFE]) + struct.pack("<Q", value) for kind, value in fields)
    return head + b"\0" + content


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was sent, and what a cutter is to make of it."""

    kind: int
    data: bytes
    start: int
    file: str
    passed: bool = False
    """It is dealt with by the reader."""
    before: bool = False
    """A chunk may begin with it."""
    alone: bool = False
    """It may change a table: no rows may be in its chunk."""
    context: tuple[bytes, ...] = ()
    """The state carried by a chunk that begins with it."""
    inside: bool = False
    """It came out of a payload."""


@dataclass
class Wire:
    """A server's bytes, and the expected events."""

    checksum: bool = True
    data: bytes = b""
    sent: list[Sent] = field(default_factory=list)
    file: str = "b.000001"
    pos: int = 4
    head: list[bytes] = field(default_factory=list)
    maps: dict[int, bytes] = field(default_factory=dict)
    at_boundary: bool = True
    """A chunk may begin here."""

    def send(
        self,
        kind: int,
        body: bytes,
        *,
        passed: bool = False,
        alone: bool = False,
        ends: bool = False,
    ) -> None:
        """Write an event to the file, and send it."""
        size = 19 + len(body) + 4 * self.checksum
        data = event(kind, body, end_pos=(self.pos + size) & 0xFFFFFFFF, checksum=self.checksum)
        self.note(kind, data, passed=passed, alone=alone)
        self.put(data)
        self.pos += size
        if ends:
            self.end()

    def put(self, data: bytes) -> None:
        self.data += packets(data, len(self.sent))

    def note(
        self,
        kind: int,
        data: bytes,
        *,
        passed: bool = False,
        alone: bool = False,
        inside: bool = False,
    ) -> None:
        before = self.at_boundary or (alone and not passed)
        context = (*self.head, *self.maps.values())
        self.sent.append(
            Sent(kind, data, self.pos, self.file, passed, before, alone, context, inside)
        )
        if not passed:
            self.at_boundary = alone

    def end(self) -> None:
        """The transaction ends."""
        self.head, self.maps, self.at_boundary = [], {}, True

    def opens(self, kind: int, body: bytes) -> None:
        """Send an event that explains the transaction."""
        self.send(kind, body)
        self.head.append(event(kind, body, end_pos=self._end_pos()))

    def _end_pos(self) -> int:
        return self.pos & 0xFFFFFFFF

    def maps_table(self, table: int) -> None:
        self.send(19, map_body(table))
        self.maps[table] = event(19, map_body(table), end_pos=self._end_pos())

    def rows(self, table: int, size: int, *, ends: bool = True, kind: int = 30) -> None:
        self.send(kind, rows_body(table, size, ends=ends))
        self.at_boundary = True
        if ends:
            self.maps = {}

    def artificial(self, kind: int, body: bytes) -> None:
        """An event that is in no file."""
        data = event(kind, body, checksum=self.checksum)
        self.note(kind, data, passed=True)
        self.put(data)

    def heartbeat(self) -> None:
        data = event(27, self.file.encode(), end_pos=self._end_pos(), checksum=self.checksum)
        self.note(27, data, passed=True)
        self.put(data)

    def format(self) -> None:
        """This event has a checksum, whatever it declares for the others."""
        checksum, self.checksum = self.checksum, True
        self.send(15, format_body(checksum=checksum), passed=True)
        self.checksum = checksum

    def rotate(self) -> None:
        """The file ends, and the next one begins."""
        number = int(self.file.partition(".")[2]) + 1
        name = f"b.{number:06}"
        body = struct.pack("<Q", 4) + name.encode()
        self.send(4, body, passed=True)
        self.file, self.pos = name, 4
        self.artificial(4, body)
        self.format()
        self.send(35, bytes(8), passed=True)

    def payload(self, inner: list[tuple[int, bytes]], *, large: bool) -> None:
        """A compressed transaction; a large one comes out as its events."""
        events = [event(kind, body) for kind, body in inner]
        body = payload_body(b"".join(events))
        if not large:
            self.send(40, body, ends=True)
            return
        self.at_boundary = True
        for (kind, inner_body), data in zip(inner, events, strict=True):
            self.note(kind, data, inside=True)
            if kind == 19:
                self.maps[inner_body[0]] = data
            elif kind == 2:
                self.head.append(data)
            elif kind == 30:
                self.at_boundary, self.maps = True, {}
        size = 19 + len(body) + 4 * self.checksum
        self.put(event(40, body, end_pos=self.pos + size, checksum=self.checksum))
        self.pos += size
        self.end()
