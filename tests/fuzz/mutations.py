"""Mutations of events: small damage of the kinds that a decoder has to notice.

Invariant: a mutation depends on its random numbers only. Sizes in headers and checksums are mostly fixed, or
nothing would pass the first check.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from random import Random

import zstandard

from connectors.errors import AqueductError
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    EventType,
    payload_events,
)
from tests.made import packed, payload_body

_BYTES = (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_NUMBERS = tuple(
    number.to_bytes(size, "little")
    for size in (2, 3, 4, 6, 8)
    for number in (0, 1, (1 << 8 * size) - 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1)
)
_PACKED = (*(packed(1 << bits) for bits in (8, 16, 31, 32, 63)), packed((1 << 64) - 1))
_KINDS = (*range(43), *range(160, 172), 200, 255)
_HEAD = 48
"""Bytes in which most lengths stand."""
_TEXTS = (
    b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT `s`", b"ROLLBACK TO `s`", b"XA START 'x'",
    b"TRUNCATE TABLE a", b"TRUNCATE `fuzz`.`a`", b"TRUNCATE", b"SET STATEMENT x=1 FOR TRUNCATE a",
    b"SET STATEMENT", b"/*", b"/*!", b"CREATE TABLE", b"INSERT INTO a VALUES (1)", b"DROP USER x",
    b"\xff", b"", b"-- ", b"#\n",
)  # fmt: skip


def position(random: Random, size: int) -> int:
    """Somewhere in so many bytes, and often near their beginning."""
    return random.randrange(min(size, _HEAD) if random.random() < 0.4 else size) if size else 0


def _flipped(random: Random, data: bytearray) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        if data:
            data[position(random, len(data))] ^= 1 << random.randrange(8)


def _byte(random: Random, data: bytearray) -> None:
    if data:
        data[position(random, len(data))] = random.choice(_BYTES)


def _number(random: Random, data: bytearray) -> None:
    at, number = position(random, len(data)), random.choice(_NUMBERS)
    data[at : at + len(number)] = number


def _packed(random: Random, data: bytearray) -> None:
    at = position(random, len(data))
    data[at : at + 1] = random.choice(_PACKED)


def _shorter(random: Random, data: bytearray) -> None:
    del data[position(random, len(data)) :]


def _longer(random: Random, data: bytearray) -> None:
    data += random.randbytes(random.choice((1, 2, 4, 8, 300)))


def _without(random: Random, data: bytearray) -> None:
    at = position(random, len(data))
    del data[at : at + random.choice((1, 1, 2, 4, 20))]


def _twice(random: Random, data: bytearray) -> None:
    at, size = position(random, len(data)), random.choice((1, 2, 4, 16, 64))
    data[at:at] = data[at : at + size] * random.choice((1, 1, 2, 30))


def _zeros(random: Random, data: bytearray) -> None:
    at, size = position(random, len(data)), random.choice((2, 8, 32))
    data[at : at + size] = bytes(len(data[at : at + size]))


_CHANGES: Sequence[Callable[[Random, bytearray], None]] = (
    _flipped, _flipped, _byte, _byte, _number, _packed, _shorter, _longer, _without, _twice, _zeros,
)  # fmt: skip


def changed(random: Random, data: bytes) -> bytes:
    """Some bytes, changed once or a few times."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_CHANGES)(random, made)
    return bytes(made)


def spliced(random: Random, one: bytes, other: bytes) -> bytes:
    """The beginning of one and the end of another."""
    return one[: position(random, len(one))] + other[position(random, len(other)) :]


def body_of(event: bytes) -> bytes:
    """An event's body, of an event with CRC32."""
    return event[HEADER_SIZE:-CHECKSUM_SIZE]


def with_body(event: bytes, body: bytes, *, kind: int | None = None) -> bytes:
    """An event with another body, and with the size and the CRC32 that it has to have."""
    timestamp, old, server_id, _, end_pos, flags = HEADER.unpack_from(event)
    size = HEADER_SIZE + len(body) + CHECKSUM_SIZE
    kind = old if kind is None else kind
    return sealed(HEADER.pack(timestamp, kind, server_id, size, end_pos, flags) + body)


def sealed(data: bytes) -> bytes:
    """Bytes followed by their CRC32."""
    return data + struct.pack("<I", zlib.crc32(data))


def mutated_event(random: Random, event: bytes, others: Sequence[bytes]) -> bytes:
    """One event, changed."""
    if len(event) < HEADER_SIZE + CHECKSUM_SIZE:
        return changed(random, event)
    body, kind, what = body_of(event), event[4], random.random()
    if kind == EventType.TRANSACTION_PAYLOAD and what < 0.7:
        return with_body(event, mutated_payload(random, body, others))
    if kind == EventType.QUERY and what < 0.3:
        return with_body(event, body[: -random.randrange(1, 6)] + random.choice(_TEXTS))
    if what < 0.05:
        # A size that is a lie.
        head = bytearray(event[:-CHECKSUM_SIZE])
        head[9:13] = struct.pack(
            "<I", random.choice((0, 18, 19, 23, len(event) - 1, 1 << 31, 0xFFFFFFFF))
        )
        return sealed(bytes(head))
    if what < 0.08:
        return changed(random, event)
    if what < 0.13:
        head = bytearray(event[:-CHECKSUM_SIZE])
        head[random.choice((0, 5, 13, 17))] ^= 1 << random.randrange(8)
        return sealed(bytes(head))
    if what < 0.2:
        return with_body(event, body, kind=random.choice(_KINDS))
    if what < 0.3:
        return with_body(event, spliced(random, body, body_of(random.choice(others))))
    return with_body(event, changed(random, body))


def mutated_payload(random: Random, body: bytes, others: Sequence[bytes]) -> bytes:
    """A compressed transaction whose events are changed, or that is not what it says."""
    try:
        inner = events_in(payload_events(body))
    except (AqueductError, IndexError, KeyError, struct.error):
        return changed(random, body)
    what = random.random()
    if what < 0.5:
        full = [sealed(event) for event in inner]
        content = b"".join(event[:-CHECKSUM_SIZE] for event in mutated(random, full, others))
    elif what < 0.6:
        content = bytes(random.choice((1 << 16, 1 << 21, 1 << 26)))
    elif what < 0.7:
        # One within another, and so on.
        content = b"".join(inner)
        for _ in range(random.choice((1, 2, 400))):
            head = HEADER.pack(0, 40, 1, 0, 0, 0)
            nested = head + payload_body(content, size=len(content), algorithm=255)
            content = nested[:9] + struct.pack("<I", len(nested)) + nested[13:]
    else:
        content = changed(random, b"".join(inner))
    size = random.choice(
        (len(content),) * 4 + (0, len(content) + 1, 1 << 30, 1 << 40, (1 << 64) - 1)
    )
    algorithm = random.choice((0, 0, 0, 255, 1))
    held = zstandard.compress(content, 1) if algorithm == 0 else content
    made = payload_body(held, size=size, algorithm=algorithm)
    return changed(random, made) if random.random() < 0.2 else made


def events_in(data: bytes) -> list[bytes]:
    """The events of a payload, which have no CRC32."""
    found, at = [], 0
    while at < len(data):
        size = max(HEADER.unpack_from(data, at)[3], HEADER_SIZE)
        found.append(data[at : at + size])
        at += size
    return found


def mutated(random: Random, events: Sequence[bytes], others: Sequence[bytes]) -> list[bytes]:
    """Events in a row, some of them changed, or lacking, or come again, or not their own."""
    made = list(events)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at, what = random.randrange(len(made)) if made else 0, random.random()
        if not made or what < 0.06:
            made.insert(at, random.choice(others))
        elif what < 0.1:
            del made[at]
        elif what < 0.14:
            made.insert(at, made[at])
        elif what < 0.18:
            other = random.randrange(len(made))
            made[at], made[other] = made[other], made[at]
        else:
            made[at] = mutated_event(random, made[at], others)
    return made
