"""The cutter returns every event once, in order, for any input in any pieces, and cuts only where allowed."""

from __future__ import annotations

import struct
from itertools import chain
from random import Random

import pytest

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    MalformedEvent,
    SourceLost,
    UnsupportedEvent,
)
from connectors.mysql.binlog.chunk_context import ROWS, verified, walk
from connectors.mysql.binlog.events import EventType, parse_event
from connectors.mysql.binlog.undone_rows import UndoneRows
from connectors.mysql.position import Coordinates
from connectors.mysql.stream import cutter as chunks
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.packet_buffer import heartbeat_position
from connectors.mysql.stream.prepared_xa import PreparedPosition, undone_of
from tests.unit.connectors.mysql.cutting import (
    SMALL,
    START,
    assert_sound,
    cut,
    ddl,
    fed,
    kinds,
    simple,
    without_gtids,
)
from tests.unit.connectors.mysql.wire import (
    MARIADB_GTID,
    Wire,
    event,
    format_body,
    gtid_body,
    map_body,
    mariadb_gtid_body,
    packets,
    payload_body,
    query_body,
    rows_body,
)


@pytest.fixture(autouse=True)
def small_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LARGE_PAYLOAD", SMALL)


def test_what_is_passed_is_counted_with_the_next_chunk() -> None:
    wire = Wire()
    wire.format()
    wire.heartbeat()
    wire.heartbeat()
    simple(wire, Random(1))
    wire.rotate()
    without_gtids(wire, Random(1))
    head, first, next_head, previous, second = cut(wire)
    assert (head.passed, first.passed) == ({15: 1}, {27: 2})
    assert (next_head.passed, previous.passed) == ({4: 2, 15: 1}, {35: 1})
    assert second.passed == {}


def test_a_file_that_is_begun_is_reported_before_any_event_of_it() -> None:
    wire = Wire()
    simple(wire, Random(1))
    wire.rotate()
    wire.heartbeat()
    _, head, previous = cut(wire)
    assert (head.data, head.created) == (b"", 1_795_000_000)
    assert (previous.data, previous.created) == (b"", head.created)
    assert head.start.file == previous.start.file == "b.000002"
    assert 4 < head.start.pos < previous.start.pos == wire.pos


def test_the_head_that_a_server_sends_before_the_middle_of_a_file_is_none() -> None:
    wire = Wire()
    wire.artificial(15, format_body(checksum=True))
    simple(wire, Random(1))
    wire.send(35, bytes(8), passed=True)
    assert [chunk.created for chunk in cut(wire)] == [0]


def test_a_statement_is_in_a_chunk_of_its_own() -> None:
    wire = Wire()
    simple(wire, Random(3))
    ddl(wire, Random(3))
    simple(wire, Random(3))
    assert [found for found in kinds(cut(wire)) if 19 not in found] == [[33, 2]]


def test_a_statement_between_rows_is_cut_off_from_both() -> None:
    wire = Wire()
    wire.opens(33, gtid_body(3))
    wire.opens(2, query_body("BEGIN"))
    wire.maps_table(4)
    wire.rows(4, 20)
    wire.send(2, query_body("CREATE TEMPORARY TABLE x (a int)"), alone=True)
    wire.maps_table(4)
    wire.rows(4, 20)
    wire.send(16, bytes(8), ends=True)
    found = cut(wire)
    assert kinds(found) == [[33, 2, 19, 30], [2], [19, 30, 16]]
    assert [len(chunk.context) for chunk in found] == [0, 2, 2]


def test_an_incident_is_given_out_at_once() -> None:
    wire = Wire()
    wire.send(26, b"\1\0\4lost")
    cutter = Cutter(START, checksum=True)
    space = cutter.space()
    space[: len(wire.data)] = wire.data
    assert kinds(list(cutter.take(len(wire.data)))) == [[26]]


def test_an_incident_before_the_start_that_the_server_sends_again_is_passed() -> None:
    wire = Wire()
    wire.send(26, b"\1\0\4lost")
    at = len(wire.data)
    simple(wire, Random(1))
    first = Cutter(START, checksum=True)
    assert kinds([*fed(first, wire.data), first.flush()])[0] == [26]
    for distance in (1, 10**6):
        later = Cutter(Coordinates(START.file, START.pos + distance), checksum=True)
        later.position = START  # as the server's first event says
        found = [*fed(later, wire.data), later.flush()]
        assert not any(26 in chunk for chunk in kinds(found))
        assert found[0].passed == {26: 1}
        assert len(b"".join(one.data for one in found)) == len(wire.data) - at


def test_statements_that_only_look_like_boundaries_are_none() -> None:
    wire = Wire()
    wire.opens(33, gtid_body(1))
    wire.send(2, query_body("DROP TABLE t -- \0BEGIN"), alone=True, ends=True)
    simple(wire, Random(1))
    assert kinds(cut(wire))[0] == [33, 2]


def test_a_file_beyond_4_gib_keeps_its_offsets() -> None:
    wire = Wire(pos=(1 << 32) - 300)
    for n in range(20):
        simple(wire, Random(n))
    found = fed(
        Cutter(Coordinates("b.000001", (1 << 32) - 300), checksum=True, target=500), wire.data
    )
    assert_sound(found, wire, 500)
    assert found[-1].start.pos > 1 << 32


def test_a_heartbeat_moves_the_place_over_what_the_server_left_out() -> None:
    wire = Wire(pos=5 << 32)
    wire.artificial(41, b"\1\x08b.000001\2\x09\xfe" + struct.pack("<Q", wire.pos) + b"\0")
    without_gtids(wire, Random(1))
    assert cut(wire)[0].start == Coordinates("b.000001", 5 << 32)


def test_both_heartbeats_have_file_and_offset() -> None:
    one = parse_event(event(27, b"b.000003", end_pos=77), checksum=False)
    two = parse_event(event(41, b"\1\x08b.000003\2\4\xfd\0\0\1\0"), checksum=False)
    assert heartbeat_position(one) == ("b.000003", 77)
    assert heartbeat_position(two) == ("b.000003", 65536)


@pytest.mark.parametrize("extra", [-20, -1, 0, 1, 5000, 0xFFFFFF])
def test_an_event_in_several_packets_is_joined(extra: int) -> None:
    wire = Wire()
    simple(wire, Random(1))
    wire.opens(2, query_body("BEGIN"))
    wire.maps_table(1)
    wire.rows(1, 0xFFFFFF - 8 - 24 + extra)
    wire.send(16, bytes(8), ends=True)
    simple(wire, Random(2))
    found = cut(wire)
    assert_sound(found, wire, 1 << 30)


def test_a_large_buffer_is_given_back() -> None:
    wire = Wire()
    wire.opens(2, query_body("BEGIN"))
    wire.rows(1, 40 << 20)
    wire.send(16, bytes(8), ends=True)
    cutter = Cutter(START, checksum=True)
    fed(cutter, wire.data)
    cutter.space()
    assert len(cutter._packets.buffer) < 2 << 20


def test_a_file_that_ends_within_a_transaction_is_refused_after_what_is_whole() -> None:
    wire = Wire()
    simple(wire, Random(1))
    whole = len(wire.data)
    wire.opens(33, gtid_body(2))
    wire.opens(2, query_body("BEGIN"))
    wire.rotate()
    cutter = Cutter(START, checksum=True)
    with pytest.raises(CorruptEvent, match="a file ends within a transaction") as caught:
        fed(cutter, wire.data)
    assert "coordinates=b.000001:" in str(caught.value)
    assert len(cutter.flush().data) == whole


def test_a_damaged_control_event_is_found_here() -> None:
    wire = Wire()
    wire.rotate()
    data = bytearray(wire.data)
    data[-8] ^= 1
    assert isinstance(refused(bytes(data)), CorruptEvent)


def refused(data: bytes) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        fed(Cutter(START, checksum=True), data)
    assert "coordinates=b.00000" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        packets(b"short"),
        packets(b""),
        b"\0\0\0\0",
        packets(event(16, bytes(8), end_pos=9, checksum=True) + b"more"),
        packets(event(16, bytes(8), end_pos=9, checksum=True)[:-1]),
        packets(event(4, b"\1", end_pos=9, checksum=True)),
        packets(event(40, b"\1\1\5\0abc", end_pos=9, checksum=True)),
        packets(event(40, b"\1", end_pos=9, checksum=True)),
    ],
)
def test_what_is_no_event_is_refused(data: bytes) -> None:
    after = packets(event(16, bytes(30), end_pos=90, checksum=True))
    assert isinstance(refused(data + after), MalformedEvent)


def test_a_length_that_is_not_its_events_is_refused_before_so_much_has_come() -> None:
    data = packets(event(16, bytes(30), end_pos=90, checksum=True))
    longer = (int.from_bytes(data[:3], "little") + 4096).to_bytes(3, "little")
    assert isinstance(refused(longer + data[3:]), MalformedEvent)


@pytest.mark.parametrize(
    "answer", [b"\xff\xd4\x04#HY000gone", b"\xfe\0\0\2\0", b"\xff" + bytes(500)]
)
def test_the_servers_last_word_ends_the_walk(answer: bytes) -> None:
    wire = Wire()
    simple(wire, Random(1))
    cutter = Cutter(START, checksum=True)
    last = len(answer).to_bytes(3, "little") + b"\7" + answer
    assert kinds(fed(cutter, wire.data + last, Random(1), 7)) == [
        [data[4] for data in [sent.data for sent in wire.sent]]
    ]
    assert cutter.answer == answer


def in_payload(data: bytes) -> bytes:
    return packets(event(EventType.TRANSACTION_PAYLOAD, data, end_pos=900, checksum=True))


LARGE = b"".join([event(19, map_body(1)), event(30, rows_body(1, 2000)), event(16, bytes(8))])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (payload_body(LARGE, claimed=len(LARGE) - 1), "has more bytes"),
        (payload_body(LARGE, claimed=len(LARGE) + 1), "were announced"),
        (payload_body(LARGE)[:-1], "of 73 bytes has 72"),
        (payload_body(LARGE[:-1]), "ends within an event"),
        (payload_body(LARGE, algorithm=9), "unknown algorithm, 9"),
        (payload_body(LARGE).replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"), "cannot be read"),
    ],
)
def test_a_large_payload_that_does_not_hold_is_refused(body: bytes, said: str) -> None:
    assert said in str(refused(in_payload(body)))


def test_a_large_payload_that_is_not_compressed_comes_out_too() -> None:
    found = fed(Cutter(START, checksum=True), in_payload(payload_body(LARGE, algorithm=255)))
    assert kinds(found) == [[19, 30, 16]]


def test_a_damaged_large_payload_gives_nothing_out() -> None:
    data = bytearray(in_payload(payload_body(LARGE)))
    data[-1] ^= 1
    assert "CRC32" in str(refused(bytes(data)))


def begun(wire: Wire, *, flags: int | None) -> None:
    """A MariaDB transaction, or MySQL's with these flags in its GTID event."""
    if flags is None:
        wire.opens(MARIADB_GTID, mariadb_gtid_body(5, 0x0C))
        return
    wire.opens(33, bytes([flags]) + gtid_body(5)[1:])
    wire.opens(2, query_body("BEGIN"))


def some_rows(wire: Wire, count: int) -> None:
    wire.maps_table(4)
    for number in range(count):
        wire.rows(4, 100, ends=number == count - 1)


def undone_in(found: list[Chunk]) -> list[list[bool]]:
    """For each chunk, which of its rows events were undone."""
    return [
        [
            at in (chunk.undone or ())
            for kind, at, _ in walk(chunk.data, 0, len(chunk.data), chunk.prefix)
            if kind in ROWS
        ]
        for chunk in found
    ]


class Ahead:
    """Reads a transaction again from what the server has, and counts how often."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.asked: list[PreparedPosition] = []

    def __call__(self, position: PreparedPosition) -> UndoneRows:
        self.asked.append(position)
        found = [one.data for one in self._wire.sent if one.start >= position.coordinates.pos]
        return undone_of((verified(data, checksum=self._wire.checksum) for data in found), position)


@pytest.mark.parametrize("flags", [None, 1])
@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
def test_no_rows_of_a_large_transaction_go_out_before_it_is_known_what_is_undone(
    flags: int | None, end: str
) -> None:
    wire = Wire()
    simple(wire, Random(1))
    begun(wire, flags=flags)
    some_rows(wire, 4)
    wire.send(2, query_body("SAVEPOINT `s`"))
    some_rows(wire, 5)
    wire.send(2, query_body("ROLLBACK TO `s`"))
    some_rows(wire, 3)
    wire.send(2, query_body(end), ends=True)
    begun(wire, flags=flags)
    some_rows(wire, 1)
    wire.send(16, bytes(8), ends=True)
    ahead = Ahead(wire)
    found = fed(Cutter(START, checksum=True, target=300, ahead=ahead), wire.data, Random(1), 50)
    assert len([chunk for chunk in found if chunk.context]) > 3
    kept = [4 * [False], 5 * [True], 3 * [False]]
    wanted = 12 * [True] if end == "ROLLBACK" else [*chain(*kept)]
    assert [*chain(*undone_in(found))][-13:] == [*wanted, False]
    assert len(ahead.asked) == len({*ahead.asked}) > 0
    assert all(chunk.is_settled for chunk in found if chunk.context)
    # One that goes out whole needs no look.
    whole = fed(Cutter(START, checksum=True), wire.data)
    assert len(whole) == 1
    assert [*chain(*undone_in(whole))][-13:] == [*wanted, False]


def test_only_rows_of_the_transaction_that_ends_in_rollback_are_undone() -> None:
    wire = Wire()
    for end in ("COMMIT", "ROLLBACK", "COMMIT"):
        wire.opens(2, query_body("BEGIN"))
        some_rows(wire, 2)
        wire.send(2, query_body(end), ends=True)
    (only,) = fed(Cutter(START, checksum=True), wire.data)
    assert undone_in([only]) == [[False, False, True, True, False, False]]


def test_no_look_is_taken_at_a_transaction_that_an_operator_skips() -> None:
    wire = Wire()
    begun(wire, flags=None)
    some_rows(wire, 9)
    wire.send(16, bytes(8), ends=True)
    ahead, skipped = Ahead(wire), list[str | None]()

    def skips(gtid: str | None, start: Coordinates) -> bool:
        assert start == START
        skipped.append(gtid)
        return True

    cutter = Cutter(START, checksum=True, target=300, ahead=ahead, skips=skips)
    assert len(fed(cutter, wire.data, Random(1), 50)) > 1
    assert ahead.asked == []
    assert {*skipped} == {"0-7-5"}


def test_no_look_is_taken_where_nothing_can_be_undone_and_what_is_not_known_is_not_stated() -> None:
    wire = Wire()
    begun(wire, flags=0)
    some_rows(wire, 9)
    wire.send(16, bytes(8), ends=True)
    ahead = Ahead(wire)
    found = fed(Cutter(START, checksum=True, target=300, ahead=ahead), wire.data, Random(1), 50)
    assert len(found) > 1
    assert not any(chunk.is_settled for chunk in found)
    assert ahead.asked == []
    lacking = Wire()
    begun(lacking, flags=None)
    some_rows(lacking, 1)
    lacking.send(2, query_body("ROLLBACK TO `s`"))
    lacking.send(16, bytes(8), ends=True)
    (only,) = fed(Cutter(START, checksum=True), lacking.data)
    assert only.undone is None
    with pytest.raises(UnsupportedEvent, match="lacks the savepoint"):
        Ahead(lacking)(PreparedPosition(START, None))


def test_a_transaction_whose_end_is_lacking_is_read_again_later() -> None:
    wire = Wire()
    begun(wire, flags=None)
    some_rows(wire, 3)
    with pytest.raises(SourceLost):
        Ahead(wire)(PreparedPosition(START, None))
