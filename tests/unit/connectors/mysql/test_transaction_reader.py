"""From hand-made events to transactions: each ends once, and what cannot be seen stops the stream."""

from __future__ import annotations

import pytest

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    MalformedEvent,
    UnsupportedEvent,
)
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.statement_kind import Kind
from tests.made import (
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
)
from tests.steps import Change, End, Recorded, Rows, Statement
from tests.unit.connectors.mysql.reading import (
    BEGIN,
    DUMMY,
    MAP,
    ROWS,
    XID,
    T,
    kinds,
    reader,
    steps,
    stopped,
)


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


def test_an_old_servers_gtid_without_time_takes_that_of_the_header() -> None:
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
    assert error.context["gtid"] == f"{SERVER}:5"


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_after_rows_of_an_earlier_chunk_stops_the_stream_too(sql: str) -> None:
    later = chunk_of(query(sql), context=(gtid(5), BEGIN), context_start=START)
    with pytest.raises(UnsupportedEvent):
        reader().read(later, Recorded())


def test_a_change_that_is_written_as_a_statement_is_given_to_its_judge() -> None:
    change, end = steps(gtid(5), BEGIN, query("INSERT INTO t VALUES (1)"), XID)
    assert isinstance(change, Change)
    assert (change.query.database, change.query.sql) == ("shop", "INSERT INTO t VALUES (1)")
    assert end.transaction is change.transaction


def test_the_statement_of_a_load_is_given_too_and_its_file_is_passed_by() -> None:
    statement = query("LOAD DATA INFILE 'x' INTO TABLE t")[19:]
    load = statement[:13] + bytes(13) + statement[13:]
    file = (
        event(EventType.BEGIN_LOAD_QUERY, b"\1\0\0\0rows"),
        event(EventType.APPEND_BLOCK, b"more"),
    )
    found = steps(gtid(5), BEGIN, *file, event(EventType.EXECUTE_LOAD_QUERY, load), XID)
    assert kinds(found) == ["Change", "End"]
    assert isinstance(found[0], Change)
    assert found[0].query.sql == "LOAD DATA INFILE 'x' INTO TABLE t"


def test_rows_of_an_earlier_transaction_do_not_count_against_a_rollback() -> None:
    found = steps(BEGIN, MAP, ROWS, XID, BEGIN, query("ROLLBACK"))
    assert kinds(found) == ["Rows", "End", "End"]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("XA PONDER X'01',X'',1", UnsupportedEvent),
        ("FROBNICATE t", UnsupportedEvent),
    ],
)
def test_what_cannot_be_seen_is_refused_with_its_place_and_without_its_data(
    sql: str, error: type[AqueductError]
) -> None:
    events = gtid(5), BEGIN, query(sql)
    caught = stopped(*events)
    assert type(caught) is error
    assert caught.context["coordinates"] == places(*events)[2]
    assert caught.context["gtid"] == f"{SERVER}:5"
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
    assert error.context["gtid"] == f"{SERVER}:5"


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
    """The key under which a table's compiled code is cached."""
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


def test_the_text_of_a_statement_comes_before_its_rows() -> None:
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


def test_events_count_once_by_type_and_those_that_came_before_do_not() -> None:
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
