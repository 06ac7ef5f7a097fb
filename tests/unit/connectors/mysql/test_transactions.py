"""From hand-made events to transactions: each ends once, and what cannot be seen stops the stream."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    MalformedEvent,
    StatementBasedChange,
    UnsupportedEvent,
)
from connectors.mysql.charsets import Charsets
from connectors.mysql.chunk import PACKET_PREFIX, Chunk
from connectors.mysql.events import EventType
from connectors.mysql.position import Coordinates
from connectors.mysql.statements import Kind
from connectors.mysql.transactions import TransactionReader
from tests.made import (
    FILE,
    SERVER,
    START,
    anonymous,
    chunk_of,
    event,
    gtid,
    int_rows,
    int_table,
    payload,
    places,
    query,
    rows_query,
    table_map,
    xid,
)
from tests.steps import End, Recorded, Rows, Statement, Step, steps_of

T = int_table()
MAP, ROWS, XID = table_map(T), int_rows(T, 5), xid()
BEGIN = query("BEGIN")
DUMMY = event(EventType.WRITE_ROWS, b"\xff\xff\xff\0\0\0\1\0\2\0\0\0")


def reader() -> TransactionReader:
    return TransactionReader(SERVER, Charsets({}, {}))


def steps(*events: bytes) -> list[Step]:
    return list(steps_of([chunk_of(*events)], reader()))


def stopped(*events: bytes) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        steps(*events)
    return caught.value


def kinds(found: list[Step]) -> list[str]:
    return [type(step).__name__ for step in found]


def told(found: list[Step]) -> list[object]:
    """Steps without the objects that are made anew in each reading."""
    return [
        (kinds([step]), step.transaction.id, step.body, step.start, step.query)
        if isinstance(step, Rows)
        else (kinds([step]), step.transaction.id, getattr(step, "end", None))
        for step in found
    ]


def test_a_transaction_has_its_rows_and_one_end() -> None:
    events = gtid(5), BEGIN, MAP, ROWS, ROWS, XID
    found = steps(*events)
    assert kinds(found) == ["Rows", "Rows", "End"]
    first = found[0]
    assert isinstance(first, Rows)
    assert (first.table_map.database, first.table_map.table) == ("shop", "t")
    assert first.start == places(*events)[3]
    assert found[-1] == End(first.transaction, places(*events)[-1])
    assert all(step.transaction is first.transaction for step in found)


def test_a_transaction_is_named_by_its_gtid_and_begins_at_that_event() -> None:
    (end,) = steps(gtid(5, committed_us=1_795_000_000_123_456), BEGIN, XID)
    transaction = end.transaction
    assert transaction.id == transaction.gtid == f"{SERVER}:5"
    assert (transaction.source, transaction.number) == (SERVER, 5)
    assert transaction.start == START
    assert transaction.committed_ms == 1_795_000_000_123
    assert (transaction.server_id, transaction.thread) == (7, 12)


def test_a_servers_gtid_of_old_that_tells_no_time_takes_that_of_the_header() -> None:
    old = gtid(5)[: 19 + 25]
    (end,) = steps(event(EventType.GTID, old[19:]), BEGIN, XID)
    assert end.transaction.gtid == f"{SERVER}:5"
    assert end.transaction.committed_ms == 1_795_000_000_000


def test_a_transaction_without_a_gtid_is_named_by_server_and_place() -> None:
    events = anonymous(), BEGIN, XID, BEGIN, XID
    first, second = steps(*events)
    assert first.transaction.gtid is first.transaction.source is None
    assert first.transaction.id == f"{SERVER}:{START}"
    assert second.transaction.id == f"{SERVER}:{places(*events)[3]}"
    assert second.transaction.committed_ms == 1_795_000_000_000


def test_a_gtid_names_one_transaction_only() -> None:
    first, second = steps(gtid(5), BEGIN, XID, BEGIN, XID)
    assert first.transaction.gtid == f"{SERVER}:5"
    assert second.transaction.gtid is None


def test_a_commit_that_is_written_as_a_statement_ends_a_transaction_too() -> None:
    assert kinds(steps(gtid(5), BEGIN, MAP, ROWS, query("COMMIT"))) == ["Rows", "End"]


def test_a_begin_is_known_with_a_database_and_status_variables_and_in_small_letters() -> None:
    for begin in (query("BEGIN", status=b"\0" + bytes(4)), query("begin", database="")):
        assert kinds(steps(gtid(5), begin, MAP, ROWS, XID)) == ["Rows", "End"]


def test_a_ddl_statement_is_a_transaction_of_its_own() -> None:
    events = gtid(5), query("ALTER TABLE t ADD c INT")
    statement, end = steps(*events)
    assert isinstance(statement, Statement)
    assert (statement.kind, statement.query.database) == (Kind.DDL, "shop")
    assert statement.start == places(*events)[1]
    assert end == End(statement.transaction, places(*events)[2])


def test_create_select_is_one_transaction_of_ddl_and_rows() -> None:
    found = steps(gtid(5), BEGIN, query("CREATE TABLE t (c INT)"), MAP, ROWS, XID)
    assert kinds(found) == ["Statement", "Rows", "End"]


@pytest.mark.parametrize("sql", ["GRANT SELECT ON *.* TO u", "CREATE USER u", "FLUSH TABLES"])
def test_a_harmless_statement_moves_the_place_and_says_nothing(sql: str) -> None:
    events = gtid(5), query(sql)
    (end,) = steps(*events)
    assert end == End(end.transaction, places(*events)[2])
    assert end.transaction.gtid == f"{SERVER}:5"


def test_savepoints_and_an_empty_rollback_change_nothing() -> None:
    found = steps(gtid(5), BEGIN, query("SAVEPOINT s"), query("ROLLBACK TO s"), query("ROLLBACK"))
    assert kinds(found) == ["End"]


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_after_rows_stops_the_stream(sql: str) -> None:
    error = stopped(gtid(5), BEGIN, MAP, ROWS, query(sql))
    assert isinstance(error, UnsupportedEvent)
    assert error.where["gtid"] == f"{SERVER}:5"


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_after_rows_of_an_earlier_chunk_stops_the_stream_too(sql: str) -> None:
    later = chunk_of(query(sql), context=(gtid(5), BEGIN), context_start=START)
    with pytest.raises(UnsupportedEvent):
        reader().read(later, Recorded())


def test_rows_of_an_earlier_transaction_do_not_count_against_a_rollback() -> None:
    found = steps(BEGIN, MAP, ROWS, XID, BEGIN, query("ROLLBACK"))
    assert kinds(found) == ["Rows", "End", "End"]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("INSERT INTO t VALUES ('very secret')", StatementBasedChange),
        ("XA START X'01',X'',1", UnsupportedEvent),
        ("FROBNICATE t", UnsupportedEvent),
    ],
)
def test_what_cannot_be_seen_is_refused_with_its_place_and_without_its_data(
    sql: str, error: type[AqueductError]
) -> None:
    events = gtid(5), BEGIN, query(sql)
    caught = stopped(*events)
    assert type(caught) is error
    assert caught.where["coordinates"] == places(*events)[2]
    assert caught.where["gtid"] == f"{SERVER}:5"
    assert "secret" not in str(caught)


def test_the_steps_before_what_stops_the_stream_are_given() -> None:
    recorded = Recorded()
    with pytest.raises(UnsupportedEvent):
        reader().read(chunk_of(BEGIN, XID, query("FROBNICATE t")), recorded)
    assert kinds(recorded.steps) == ["End"]


@pytest.mark.parametrize("kind", [EventType.GTID, EventType.ANONYMOUS_GTID])
def test_a_transaction_that_begins_within_another_is_damage_and_not_a_part_of_it(kind: int) -> None:
    error = stopped(gtid(5), BEGIN, MAP, ROWS, gtid(6, kind=kind))
    assert isinstance(error, CorruptEvent)
    assert error.where["gtid"] == f"{SERVER}:5"


def test_a_tables_number_holds_for_its_chunk_only() -> None:
    read = reader()
    read.read(chunk_of(BEGIN, MAP, ROWS, XID), Recorded())
    with pytest.raises(MalformedEvent, match="table id 1"):
        read.read(chunk_of(ROWS), Recorded())


def test_a_number_may_come_to_mean_another_table() -> None:
    a, b = int_table(1, "a"), int_table(1, "b")
    found = steps(table_map(a), int_rows(a, 1), table_map(b), int_rows(b, 1), XID)
    assert [step.table_map.table for step in found if isinstance(step, Rows)] == ["a", "b"]


def test_a_table_that_is_described_again_in_the_same_words_is_the_same_one() -> None:
    """What is compiled for a table is looked up by it."""
    read, first, second = reader(), Recorded(), Recorded()
    read.read(chunk_of(BEGIN, MAP, ROWS, XID), first)
    read.read(chunk_of(BEGIN, MAP, ROWS, XID), second)
    one, other = first.steps[0], second.steps[0]
    assert isinstance(one, Rows)
    assert isinstance(other, Rows)
    assert one.table_map is other.table_map
    assert one.table_map == T


def test_the_rows_event_that_only_ends_a_statement_has_no_rows() -> None:
    assert kinds(steps(BEGIN, DUMMY, XID)) == ["End"]


def test_the_text_of_a_statement_is_told_before_its_rows() -> None:
    sql = "UPDATE t SET c = 'né'"
    found = steps(gtid(5), BEGIN, rows_query(sql), MAP, ROWS, XID, gtid(6), BEGIN, MAP, ROWS, XID)
    assert [step.query for step in found if isinstance(step, Rows)] == [sql, None]


@pytest.mark.parametrize(
    "cut",
    [event(EventType.QUERY, b"\1\2"), event(EventType.TABLE_MAP, b"\1"), event(EventType.GTID)],
)
def test_an_event_whose_body_is_cut_is_refused_by_its_name_and_place(cut: bytes) -> None:
    error = stopped(cut)
    assert isinstance(error, MalformedEvent)
    assert EventType(cut[4]).name in str(error)
    assert str(START) in str(error)


@pytest.mark.parametrize("algorithm", [0, 255])
def test_a_compressed_transaction_has_the_steps_that_a_plain_one_has(algorithm: int) -> None:
    events = gtid(5), payload(BEGIN, MAP, ROWS, XID, algorithm=algorithm)
    found = steps(*events)
    assert kinds(found) == ["Rows", "End"]
    assert isinstance(found[0], Rows)
    assert found[0].transaction.gtid == f"{SERVER}:5"
    assert found[0].start == places(*events)[1]
    assert found[-1] == End(found[0].transaction, places(*events)[2])


def test_events_count_once_by_type_and_those_that_were_told_before_do_not() -> None:
    read = reader()
    read.read(chunk_of(gtid(5), BEGIN, MAP, ROWS), Recorded())
    read.read(chunk_of(ROWS, XID, context=(gtid(5), BEGIN, MAP), context_start=START), Recorded())
    counted = {EventType(kind): count for kind, count in enumerate(read.seen) if count}
    assert counted == {
        EventType.GTID: 1,
        EventType.QUERY: 1,
        EventType.TABLE_MAP: 1,
        EventType.WRITE_ROWS: 2,
        EventType.XID: 1,
    }


EVENTS = (
    *(gtid(5), BEGIN, rows_query("INSERT …"), MAP, int_rows(T, 1), int_rows(T, 2), XID),
    *(gtid(6), query("ALTER TABLE t ADD d INT")),
    *(anonymous(), BEGIN, MAP, ROWS, query("COMMIT"), BEGIN, MAP, ROWS, DUMMY, XID),
)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("prefix", [0, PACKET_PREFIX])
def test_the_same_is_told_with_and_without_checksums_and_packets(
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
def test_offsets_go_on_behind_the_32_bits_that_a_header_has(pos: int) -> None:
    start = Coordinates(FILE, pos)
    found = list(steps_of([chunk_of(*EVENTS, start=start)], reader()))
    ends = [step.end for step in found if isinstance(step, End)]
    assert ends[-1] == places(*EVENTS, start=start)[-1]
    assert ends == sorted(ends, key=lambda end: end.pos)


def test_a_chunk_that_begins_within_a_transaction_goes_on_with_it() -> None:
    events = gtid(5), BEGIN, rows_query("INSERT …"), MAP, int_rows(T, 1), int_rows(T, 2), XID
    at = places(*events)
    whole = list(steps_of([chunk_of(*events)], reader()))
    first = chunk_of(*events[:5])
    rest = chunk_of(*events[5:], start=at[5], context=events[:4], context_start=START)
    one = reader()
    assert told([*steps_of([first], one), *steps_of([rest], one)]) == told(whole)
    assert one.open is None
    # Another reader, in another process, has not seen the first one.
    other = reader()
    (later, end) = steps_of([rest], other)
    assert told([later, end]) == told(whole[1:])
    assert later.transaction.start == START
    assert (later.transaction.thread, later.transaction.server_id) == (12, 7)
    assert isinstance(end, End)
    assert end.end == at[-1]


@pytest.mark.parametrize("head", [(anonymous(committed_us=9_000_000), BEGIN), (BEGIN,)])
def test_a_transaction_without_gtid_keeps_its_name_in_later_chunks(head: tuple[bytes, ...]) -> None:
    events = *head, MAP, ROWS, ROWS, XID
    rest = chunk_of(ROWS, XID, start=places(*events)[-3], context=(*head, MAP), context_start=START)
    whole, later = steps(*events), list(steps_of([rest], reader()))
    assert told(later) == told(whole[1:])
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
    place = (Coordinates(FILE, 500), Coordinates(FILE, 900))

    def piece(*events: bytes, context: tuple[bytes, ...]) -> Chunk:
        made = chunk_of(*events, start=place[0], context=context, context_start=START)
        return replace(made, place=place)

    head = chunk_of(gtid(5))
    first = piece(BEGIN, MAP, int_rows(T, 1), context=(gtid(5),))
    last = piece(int_rows(T, 2), XID, context=(gtid(5), BEGIN, MAP))
    one, two, end = steps_of([head, first, last], reader())
    assert isinstance(one, Rows)
    assert isinstance(two, Rows)
    assert one.start == two.start == place[0]
    assert end == End(two.transaction, place[1])
    assert {step.transaction.id for step in (one, two, end)} == {f"{SERVER}:5"}
    assert {step.transaction.start for step in (one, two, end)} == {START}


def test_a_damaged_byte_is_noticed_wherever_it_is() -> None:
    whole = chunk_of(*EVENTS, prefix=PACKET_PREFIX, checksum=True)
    gaps = set()
    for number, place in enumerate(places(*EVENTS, checksum=True)):
        begin = place.pos - START.pos + number * PACKET_PREFIX
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
