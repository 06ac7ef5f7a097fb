"""XA transactions in hand-made events: rows come out once, before what commits them, or never."""

from __future__ import annotations

import struct
from random import Random

import pytest

from connectors.errors import CorruptEvent, MalformedEvent, PreparedRowsGone, UnsupportedEvent
from connectors.mysql.binlog.xa import decides, parse_xa_prepare, xid_of
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.prepared_xa import PreparedPosition, PreparedTransactions, rows_again
from tests.unit.connectors.mysql.binlog.xa_source import (
    Described,
    Source,
    described,
    prepare_body,
    xid,
)
from tests.unit.connectors.mysql.cutting import START, events_of, fed, simple
from tests.unit.connectors.mysql.wire import (
    SERVER,
    Wire,
    event,
    gtid_body,
    map_body,
    payload_body,
    query_body,
    rows_body,
)

PLACE = PreparedPosition(Coordinates("b.000001", 4), f"{SERVER}:1")


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("XA COMMIT X'6A6B',X'',1", "X'6a6b',X'',1"),
        ("XA START X'61',X'62',4294967295", "X'61',X'62',4294967295"),
        ("XA ROLLBACK X'61',X'',18446744073709551615", "X'61',X'',4294967295"),
    ],
)
def test_a_name_has_one_spelling(statement: str, name: str) -> None:
    assert xid_of(statement) == name


def test_a_name_in_an_event_is_that_of_the_statements() -> None:
    body = struct.pack("<BIII", 1, 7, 2, 1) + b"abc"
    assert parse_xa_prepare(body) == ("X'6162',X'63',7", True)
    with pytest.raises(IndexError):
        parse_xa_prepare(body[:-1])


def test_a_statement_without_a_name_or_with_another_verb_is_refused() -> None:
    with pytest.raises(MalformedEvent):
        xid_of("XA COMMIT 'a'")
    with pytest.raises(UnsupportedEvent, match="XA PONDER"):
        decides("XA PONDER X'61',X'',1")


def test_what_is_kept_is_bounded_and_what_waited_longest_goes_first() -> None:
    held = PreparedTransactions({"old": PLACE}, keep=10)
    for name in ("a", "b", "c"):
        held.add(name, PLACE, name.encode() * 4)
    held.add("large", PLACE, None)
    assert held.take("a") == held.take("old") == held.take("large") == (PLACE, None)
    assert held.take("b") == (PLACE, b"bbbb")
    assert held.take("b") == (None, None)
    held.add("c", PLACE, b"d" * 9)
    assert held.take("c") == (PLACE, b"d" * 9)


def test_rows_that_are_put_in_have_no_place_of_their_own_and_the_commit_keeps_its() -> None:
    source = Source()
    source.xa("a", Random(2), count=3)
    source.decide("a", "COMMIT")
    (chunk,) = fed(source.cutter(1 << 18), source.wire.data)
    ends = [struct.unpack_from("<I", data, 13)[0] for data in events_of(chunk)]
    sent = {(one.kind, one.start + len(one.data)) for one in source.wire.sent}
    kinds = [data[4] for data in events_of(chunk)]
    assert {end for kind, end in zip(kinds, ends, strict=True) if kind in (19, 30)} == {0}
    assert (2, ends[-1]) in sent
    assert (38, ends[2]) in sent


@pytest.mark.parametrize("apart", [False, True])
def test_rows_that_it_undid_are_known_however_much_later_it_is_committed(apart: bool) -> None:
    source = Source()
    rows = (19, map_body(3)), (30, rows_body(3, 30))
    source._send(
        (33, gtid_body(1)), (2, query_body(f"XA START {xid('a')}")), *rows,
        (2, query_body("SAVEPOINT `s`")), *rows, (2, query_body("ROLLBACK TO `s`")),
        (2, query_body(f"XA END {xid('a')}")), (38, prepare_body("a")),
    )  # fmt: skip
    prepared = source.wire.data
    source._send((33, gtid_body(2)), (2, query_body(f"XA COMMIT {xid('a')}")))
    cutter, committed = source.cutter(1 << 18), source.wire.data[len(prepared) :]
    parts = [prepared, committed] if apart else [prepared + committed]
    chunks = [chunk for part in parts for chunk in fed(cutter, part)]
    assert [len(chunk.undone or ()) for chunk in chunks] == ([0, 1] if apart else [1])


def test_what_a_payload_becomes_ends_where_that_ends() -> None:
    source = Source()
    source.xa("a", Random(2), packed=True)
    (chunk,) = fed(source.cutter(1 << 18), source.wire.data)
    *_, last = events_of(chunk)
    assert (last[4], struct.unpack_from("<I", last, 13)[0]) == (38, source.wire.pos)


def test_a_large_one_is_cut_and_each_piece_knows_whose_it_is() -> None:
    source = Source()
    source.xa("a", Random(5), count=9)
    source.decide("a", "COMMIT")
    found = fed(source.cutter(100), source.wire.data)
    commit = source.wire.sent[-2]
    inside = [chunk for chunk in found if chunk.container is not None]
    assert len(inside) > 1
    for chunk in inside:
        assert chunk.context[0][19:] == gtid_body(2)
        assert chunk.context_start == Coordinates(START.file, commit.start)
        assert chunk.container == (
            Coordinates(START.file, commit.start + len(commit.data)),
            Coordinates(START.file, source.wire.pos),
        )


def test_a_damaged_row_is_found_before_it_is_held_back() -> None:
    source = Source()
    source.xa("a", Random(2), count=3)
    at = source.wire.data.index(map_body(3))
    data = bytearray(source.wire.data)
    data[at + 8] ^= 1
    with pytest.raises(CorruptEvent):
        fed(source.cutter(1 << 18), bytes(data))


def test_a_commit_of_a_stranger_is_refused_and_what_was_before_it_comes_out() -> None:
    wire = Wire()
    simple(wire, Random(1))
    wire.send(33, gtid_body(9))
    wire.send(2, query_body(f"XA COMMIT {xid('who')}"))
    cutter = Cutter(START, checksum=True)
    with pytest.raises(PreparedRowsGone) as caught:
        fed(cutter, wire.data)
    assert caught.value.context["xid"] == xid("who")
    assert cutter.pending


@pytest.mark.parametrize("end", [(16, bytes(8)), (2, query_body("ROLLBACK"))])
def test_an_xa_transaction_that_ends_as_others_is_never_passed_by(end: Described) -> None:
    wire = Wire()
    wire.send(33, gtid_body(1))
    wire.send(2, query_body(f"XA START {xid('a')}"))
    wire.send(19, map_body(3))
    wire.send(30, rows_body(3, 700))
    wire.send(*end)
    with pytest.raises((CorruptEvent, UnsupportedEvent)):
        fed(Cutter(START, checksum=True, target=100), wire.data, None, 50)


def read_again(*events: Described, position: PreparedPosition = PLACE) -> list[bytes]:
    return list(rows_again((event(*one) for one in events), xid("a"), position, enough=1))


OURS: tuple[Described, ...] = ((2, query_body(f"XA START {xid('a')}")), (30, rows_body(3, 9)))


def test_rows_are_found_again_by_gtid_among_others() -> None:
    others: tuple[Described, ...] = ((33, gtid_body(5)), (2, query_body("BEGIN")), (30, b"no"))
    found = read_again((15, b""), *others, (33, gtid_body(1)), *OURS, (38, prepare_body("a")))
    assert b"".join(found) == event(30, rows_body(3, 9))


@pytest.mark.parametrize(
    "events",
    [
        [],
        [(33, gtid_body(2)), *OURS, (38, prepare_body("a"))],
        [(33, gtid_body(1)), (2, query_body("BEGIN")), OURS[1], (16, bytes(8))],
        [(33, gtid_body(1)), (2, query_body(f"XA START {xid('b')}")), OURS[1]],
        [(33, gtid_body(1)), (40, payload_body(event(2, query_body("BEGIN")) + event(30, b"x")))],
        [(33, gtid_body(1)), OURS[0]],
    ],
)
def test_whatever_else_is_there_is_not_taken_for_them(events: list[Described]) -> None:
    with pytest.raises(PreparedRowsGone):
        read_again(*events)


def test_without_a_gtid_the_first_transaction_must_be_the_one() -> None:
    position = PreparedPosition(PLACE.coordinates, None)
    first = (34, gtid_body(0))
    assert read_again(first, *OURS, (38, prepare_body("a")), position=position)
    with pytest.raises(PreparedRowsGone):
        read_again(
            first, (2, query_body("BEGIN")), (16, b""), first, *OURS, (38, prepare_body("a")),
            position=position,
        )  # fmt: skip


def test_events_in_several_packets_are_let_go_of_one_after_the_other() -> None:
    wire = Wire()
    wire.send(33, gtid_body(1))
    wire.send(2, query_body(f"XA START {xid('a')}"))
    for _ in range(2):
        wire.send(30, rows_body(3, 17_000_000))
    wire.send(38, prepare_body("a"))
    found = fed(Cutter(START, checksum=True), wire.data)
    assert [kind for kind, _ in described(found)] == [33, 2, 38]
