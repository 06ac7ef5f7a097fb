"""Transactions of every kind as a server sends them, and what a cutter must make of them."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from random import Random

from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from tests.unit.connectors.mysql.wire import (
    ANNOTATE,
    MARIADB_GTID,
    QUERY_COMPRESSED,
    Sent,
    Wire,
    compressed_query_body,
    gtid_body,
    map_body,
    mariadb_gtid_body,
    query_body,
    rows_body,
)

START = Coordinates("b.000001", 4)
ROWS = {23, 24, 25, 30, 31, 32, 39, 166, 167, 168}
SMALL = 600
"""A payload that expands to more is a large one, in these tests."""


def fed(
    cutter: Cutter, data: bytes, random: Random | None = None, most: int = 1 << 20
) -> list[Chunk]:
    """A cutter's output for bytes in pieces of any size, with the rest at the end."""
    found, at = [], 0
    while at < len(data):
        space = cutter.space()
        size = min(len(space), len(data) - at, random.randint(1, most) if random else most)
        space[:size] = data[at : at + size]
        at += size
        found += list(cutter.take(size))
        if random and random.random() < 0.1 and cutter.pending:
            found.append(cutter.flush())
    if cutter.pending:
        found.append(cutter.flush())
    return found


def cut(wire: Wire, *, target: int = 1 << 18, start: Coordinates = START) -> list[Chunk]:
    return fed(Cutter(start, checksum=wire.checksum, target=target), wire.data)


def events_of(chunk: Chunk) -> list[bytes]:
    """A chunk's events, whole; their checksums hold."""
    found, at = [], 0
    while at < len(chunk.data):
        begin = at + chunk.prefix
        (size,) = struct.unpack_from("<I", chunk.data, begin + 9)
        at = begin + size
        found.append(chunk.data[begin:at])
        if chunk.checksum:
            assert struct.pack("<I", zlib.crc32(found[-1][:-4])) == found[-1][-4:]
    assert at == len(chunk.data)
    return found


def kinds(found: list[Chunk]) -> list[list[int]]:
    return [[data[4] for data in events_of(chunk)] for chunk in found]


def simple(wire: Wire, random: Random) -> None:
    wire.opens(33, gtid_body(1))
    wire.opens(2, query_body("BEGIN", status=bytes(random.randrange(9))))
    for _ in range(random.randint(0, 5)):
        tables = random.sample(range(1, 9), random.randint(1, 2))
        for table in tables:
            wire.maps_table(table)
        for n in range(count := random.randint(1, 4)):
            wire.rows(tables[0], random.choice([8, 30, 700]), ends=n == count - 1)
        if random.random() < 0.2:
            wire.send(2, query_body("SAVEPOINT `x`"))
    if random.random() < 0.3:
        wire.send(2, query_body("COMMIT"), ends=True)
    else:
        wire.send(16, bytes(8), ends=True)


def ddl(wire: Wire, random: Random) -> None:
    wire.opens(random.choice([33, 34]), gtid_body(2))
    wire.sent[-1] = mark(wire.sent[-1])
    wire.send(2, query_body("ALTER TABLE t ADD c int"), alone=True, ends=True)


def mark(sent: Sent) -> Sent:
    """An announcement that belongs to a statement alone."""
    return Sent(sent.kind, sent.data, sent.start, sent.file, before=True, alone=True)


def ddl_without_gtids(wire: Wire, _: Random) -> None:
    wire.send(2, query_body("/* x */ DROP TABLE t"), alone=True, ends=True)


def harmless(wire: Wire, _: Random) -> None:
    wire.opens(33, gtid_body(2))
    wire.send(2, query_body("GRANT ALL ON *.* TO x"), ends=True)


def create_select(wire: Wire, _: Random) -> None:
    wire.opens(33, gtid_body(3))
    wire.opens(2, query_body("BEGIN"))
    wire.send(2, query_body("CREATE TABLE t (a int) START TRANSACTION"), alone=True)
    wire.maps_table(4)
    wire.rows(4, 20)
    wire.send(16, bytes(8), ends=True)


def without_gtids(wire: Wire, random: Random) -> None:
    wire.opens(2, query_body("BEGIN"))
    wire.maps_table(1)
    wire.send(29, b"\0insert")
    wire.rows(1, random.choice([8, 500]))
    wire.send(16, bytes(8), ends=True)


def mariadb(wire: Wire, random: Random) -> None:
    wire.opens(MARIADB_GTID, mariadb_gtid_body(1, 12))
    for _ in range(random.randint(1, 4)):
        wire.send(ANNOTATE, b"insert into t")
        wire.maps_table(1)
        wire.rows(1, random.choice([8, 500]), kind=random.choice([23, 25, 166, 168]))
    if random.random() < 0.5:
        wire.send(QUERY_COMPRESSED, compressed_query_body("COMMIT"), ends=True)
    else:
        wire.send(16, bytes(8), ends=True)


def mariadb_ddl(wire: Wire, random: Random) -> None:
    wire.opens(MARIADB_GTID, mariadb_gtid_body(2, 1))
    wire.sent[-1] = mark(wire.sent[-1])
    sql = "CREATE TABLE t (a int)"
    if random.random() < 0.5:
        wire.send(2, query_body(sql), alone=True, ends=True)
    else:
        wire.send(QUERY_COMPRESSED, compressed_query_body(sql), alone=True, ends=True)


def payload(wire: Wire, random: Random) -> None:
    wire.opens(33, gtid_body(5))
    rows = [(19, map_body(3)), (30, rows_body(3, 100))] * random.randint(1, 12)
    inner = [(2, query_body("BEGIN")), *rows, (16, bytes(8))]
    size = sum(19 + len(body) for _, body in inner)
    wire.payload(inner, large=size > SMALL)


def beat(wire: Wire, _: Random) -> None:
    wire.heartbeat()


def rotate(wire: Wire, _: Random) -> None:
    wire.rotate()


def unknown(wire: Wire, _: Random) -> None:
    wire.send(99, b"?", ends=True)


PARTS: list[Callable[[Wire, Random], None]] = [
    simple, simple, ddl, ddl_without_gtids, harmless, create_select, without_gtids, mariadb, mariadb_ddl,
    payload, beat, rotate, unknown,
]  # fmt: skip


def assert_sound(found: list[Chunk], wire: Wire, target: int) -> None:
    expected = [sent for sent in wire.sent if not sent.passed]
    assert [data for chunk in found for data in events_of(chunk)] == [
        sent.data for sent in expected
    ]
    at = 0
    for chunk in found:
        if chunk.created:
            # The head of a file, between two transactions, and before all that the file holds.
            assert not chunk.data
            assert not chunk.context
            assert at == len(expected) or expected[at].before
            continue
        count = len(events_of(chunk))
        assert count
        first, held = expected[at], expected[at : at + count]
        at += count
        assert first.before
        assert chunk.context == first.context
        assert (chunk.context_start is None) == (not first.context)
        assert chunk.start == Coordinates(first.file, first.start)
        assert {sent.file for sent in held} == {first.file}
        if any(sent.alone for sent in held):
            assert not any(sent.kind in ROWS or sent.kind == 40 for sent in held)
        if first.inside:
            assert chunk.container is not None
            assert chunk.container[0] == chunk.start
            assert not chunk.checksum
        # More than enough is only gathered where it came at once, or is one transaction's.
        assert len(chunk.data) < target + 20_000 or len(held) < 6
    passed: Counter[int] = Counter()
    for chunk in found:
        passed.update(chunk.passed)
    all_passed = Counter(sent.kind for sent in wire.sent if sent.passed)
    assert all(passed[kind] <= all_passed[kind] for kind in passed)
