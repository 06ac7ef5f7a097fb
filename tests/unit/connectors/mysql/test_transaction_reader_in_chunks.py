"""The same transactions wherever their chunks are cut, and a chunk that is damaged or incomplete is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from connectors.errors import (
    CorruptEvent,
    MalformedEvent,
)
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import PACKET_PREFIX, Chunk
from tests.made import (
    FILE,
    SERVER,
    START,
    anonymous,
    chunk_of,
    gtid,
    int_rows,
    places,
    query,
    rows_query,
)
from tests.steps import End, Recorded, Rows, steps_of
from tests.unit.connectors.mysql.reading import (
    BEGIN,
    DUMMY,
    MAP,
    ROWS,
    XID,
    T,
    described,
    kinds,
    reader,
    steps,
)

EVENTS = (
    *(gtid(5), BEGIN, rows_query("INSERT …"), MAP, int_rows(T, 1), int_rows(T, 2), XID),
    *(gtid(6), query("ALTER TABLE t ADD d INT")),
    *(anonymous(), BEGIN, MAP, ROWS, query("COMMIT"), BEGIN, MAP, ROWS, DUMMY, XID),
)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("prefix", [0, PACKET_PREFIX])
def test_the_same_is_read_with_and_without_checksums_and_packets(
    prefix: int, checksum: bool
) -> None:
    found = list(steps_of([chunk_of(*EVENTS, prefix=prefix, checksum=checksum)], reader()))
    at = places(*EVENTS, checksum=checksum)
    assert kinds(found) == [
        *("Rows", "Rows", "End"),
        *("Statement", "End"),
        *("Rows", "End"),
        *("Rows", "End"),
    ]
    assert [step.start for step in found if isinstance(step, Rows)] == [
        *(at[4], at[5]),
        *(at[12], at[16]),
    ]
    assert [step.end for step in found if isinstance(step, End)] == [at[7], at[9], at[14], at[19]]


@pytest.mark.parametrize("pos", [4, (1 << 32) - 250, 5 << 32])
def test_offsets_continue_past_the_32_bits_of_a_header(pos: int) -> None:
    start = Coordinates(FILE, pos)
    found = list(steps_of([chunk_of(*EVENTS, start=start)], reader()))
    ends = [step.end for step in found if isinstance(step, End)]
    assert ends[-1] == places(*EVENTS, start=start)[-1]
    assert ends == sorted(ends, key=lambda end: end.pos)


def test_a_chunk_that_begins_within_a_transaction_continues_with_it() -> None:
    events = gtid(5), BEGIN, rows_query("INSERT …"), MAP, int_rows(T, 1), int_rows(T, 2), XID
    at = places(*events)
    whole = list(steps_of([chunk_of(*events)], reader()))
    first = chunk_of(*events[:5])
    rest = chunk_of(*events[5:], start=at[5], context=events[:4], context_start=START)
    one = reader()
    assert described([*steps_of([first], one), *steps_of([rest], one)]) == described(whole)
    assert one.open is None
    # Another reader, in another process, has not seen the first one.
    other = reader()
    (later, end) = steps_of([rest], other)
    assert described([later, end]) == described(whole[1:])
    assert later.transaction.start == START
    assert (later.transaction.thread, later.transaction.server_id) == (12, 7)
    assert isinstance(end, End)
    assert end.end == at[-1]


@pytest.mark.parametrize("head", [(anonymous(committed_us=9_000_000), BEGIN), (BEGIN,)])
def test_a_transaction_without_gtid_keeps_its_name_in_later_chunks(head: tuple[bytes, ...]) -> None:
    events = *head, MAP, ROWS, ROWS, XID
    rest = chunk_of(ROWS, XID, start=places(*events)[-3], context=(*head, MAP), context_start=START)
    whole, later = steps(*events), list(steps_of([rest], reader()))
    assert described(later) == described(whole[1:])
    assert later[0].transaction.id == f"{SERVER}:{START}"
    assert later[0].transaction.committed_ms == whole[0].transaction.committed_ms


def test_a_reader_says_what_a_chunk_leaves_open() -> None:
    read = reader()
    read.read(chunk_of(gtid(5), BEGIN, MAP, ROWS), Recorded())
    assert read.open is not None
    assert read.open.gtid == f"{SERVER}:5"
    read.read(chunk_of(gtid(6), BEGIN, XID), Recorded())
    assert read.open is None


def test_pieces_of_a_payload_stand_where_the_payload_does() -> None:
    position = (Coordinates(FILE, 500), Coordinates(FILE, 900))

    def piece(*events: bytes, context: tuple[bytes, ...]) -> Chunk:
        made = chunk_of(*events, start=position[0], context=context, context_start=START)
        return replace(made, container=position)

    head = chunk_of(gtid(5))
    first = piece(BEGIN, MAP, int_rows(T, 1), context=(gtid(5),))
    last = piece(int_rows(T, 2), XID, context=(gtid(5), BEGIN, MAP))
    one, two, end = steps_of([head, first, last], reader())
    assert isinstance(one, Rows)
    assert isinstance(two, Rows)
    assert one.start == two.start == position[0]
    assert end == End(two.transaction, position[1])
    assert {step.transaction.id for step in (one, two, end)} == {f"{SERVER}:5"}
    assert {step.transaction.start for step in (one, two, end)} == {START}


def test_a_damaged_byte_is_noticed_wherever_it_is() -> None:
    whole = chunk_of(*EVENTS, prefix=PACKET_PREFIX, checksum=True)
    gaps = set()
    for number, position in enumerate(places(*EVENTS, checksum=True)):
        begin = position.pos - START.pos + number * PACKET_PREFIX
        gaps |= set(range(begin, begin + PACKET_PREFIX))
    chosen = random.Random(1).sample(sorted(set(range(len(whole.data))) - gaps), 150)
    for at in chosen:
        damaged = bytearray(whole.data)
        damaged[at] ^= 0x01
        recorded = Recorded()
        with pytest.raises(CorruptEvent) as caught:
            reader().read(replace(whole, data=bytes(damaged)), recorded)
        assert f"{FILE}:" in str(caught.value)


@pytest.mark.parametrize("size", [1, 18, 30])
def test_a_chunk_that_ends_within_an_event_is_refused(size: int) -> None:
    whole = chunk_of(MAP, ROWS, checksum=True)
    cut = whole.data[: len(MAP) + 4 + size]
    with pytest.raises((CorruptEvent, MalformedEvent)):
        reader().read(replace(whole, data=cut), Recorded())
