"""A landmark depends on the binlog's bytes, not on how they were sent."""

from __future__ import annotations

import struct
import uuid
import zlib

import pytest

from connectors.mysql.binlog.events import HEADER, Event, EventType
from connectors.mysql.landmark import Landmark, Mark
from connectors.mysql.lookup.fingerprint import Recent
from connectors.mysql.position import Coordinates
from tables.state.cursor import CursorProof, FileHead

BODY = b"\x00" + uuid.UUID(int=7).bytes + struct.pack("<QBQQ", 5, 2, 1, 2)


def times(own: int, original: int | None = None) -> bytes:
    """The times of commit of a GTID event: the server's own, and the first server's where it differs."""
    if original is None:
        return own.to_bytes(7, "little")
    return (own | 1 << 55).to_bytes(7, "little") + original.to_bytes(7, "little")


def event(
    body: bytes, *, timestamp: int = 100, server_id: int = 1, checksum: bool = False
) -> bytes:
    size = HEADER.size + len(body) + 4 * checksum
    data = HEADER.pack(timestamp, EventType.GTID, server_id, size, 500, 0) + body
    return data + zlib.crc32(data).to_bytes(4, "little") if checksum else data


def mark(body: bytes, *, timestamp: int = 100, server_id: int = 1) -> Mark:
    return Mark.within(event(body, timestamp=timestamp, server_id=server_id), 0, checksum=False)


def test_the_checksum_of_an_event_and_its_offset_change_nothing() -> None:
    plain, guarded = event(BODY + times(9)), event(BODY + times(9), checksum=True)
    assert Mark.within(plain, 0, checksum=False) == Mark.within(guarded, 0, checksum=True)
    shifted = b"before" + guarded
    assert Mark.within(shifted, 6, checksum=True) == Mark.within(plain, 0, checksum=False)
    came = Event(100, int(EventType.GTID), 1, 7, 0, len(plain), BODY + times(9))
    assert Mark.of(came) == Mark.within(plain, 0, checksum=False)


@pytest.mark.parametrize(
    "other",
    [
        mark(BODY + times(10)),
        mark(BODY + times(9), timestamp=101),
        mark(BODY + times(9), server_id=2),
        mark(BODY[:-1] + b"\1" + times(9)),
    ],
)
def test_another_event_is_another_mark(other: Mark) -> None:
    assert other != mark(BODY + times(9))


def test_a_replicas_copy_is_known_by_the_first_commit_or_else_by_time_and_server() -> None:
    first = mark(BODY + times(9))
    assert first.is_copy_of(mark(BODY + times(50, 9), timestamp=130))
    assert not first.is_copy_of(mark(BODY + times(50, 8)))
    old = mark(BODY)
    assert old.original_us == 0
    assert old.is_copy_of(mark(BODY[:-1] + b"\1"))
    assert not old.is_copy_of(mark(BODY, timestamp=101))
    assert not old.is_copy_of(mark(BODY, server_id=2))


def test_a_proof_is_read_as_it_was_written_and_an_old_cursor_has_none() -> None:
    landmark = Landmark(
        gtid="u:1",
        start=Coordinates("b.000001", 4),
        end=Coordinates("b.000001", 90),
        first=mark(BODY),
        last=None,
        last_pos=60,
    )
    proof = CursorProof(
        landmark=landmark,
        head=FileHead(file="b.000001", created=5),
        recent=(Recent("u:1", "ab", 7),),
        by_gtids_to=Coordinates("b.000002", 8),
    )
    assert CursorProof.from_json(proof.to_json()) == proof
    assert CursorProof.from_json({}) == CursorProof()
    assert CursorProof().is_empty
