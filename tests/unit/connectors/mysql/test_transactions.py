"""From hand-made events to transactions: each ends once, and what cannot be seen stops the stream."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator

import pytest
import zstandard

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    MalformedEvent,
    StatementBasedChange,
    UnsupportedEvent,
)
from connectors.mysql.charsets import Charsets
from connectors.mysql.events import Event, EventType
from connectors.mysql.position import Coordinates
from connectors.mysql.statements import Kind
from connectors.mysql.stream import PlacedEvent
from connectors.mysql.transactions import End, Rows, Statement, Step, TransactionReader

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "b.000001"
HEADER = struct.Struct("<IBIIIH")


def event(kind: int, body: bytes = b"", *, end_pos: int = 1) -> Event:
    return Event(1_795_000_000, kind, 7, end_pos, 0, 19 + len(body), body)


def gtid(number: int, *, kind: int = EventType.GTID, committed_us: int = 0) -> Event:
    body = b"\1" + uuid.UUID(SERVER).bytes + struct.pack("<Q", number) + b"\2" + bytes(16)
    return event(kind, body + committed_us.to_bytes(7, "little"))


def query(sql: str, *, database: str = "shop", thread: int = 12) -> Event:
    head = struct.pack("<IIBHH", thread, 0, len(database), 0, 0)
    return event(EventType.QUERY, head + database.encode() + b"\0" + sql.encode())


def table_map(number: int = 1, table: str = "t") -> Event:
    """A table of one INT column."""
    names = b"\4shop\0" + bytes([len(table)]) + table.encode() + b"\0"
    return event(
        EventType.TABLE_MAP, number.to_bytes(6, "little") + b"\0\0" + names + b"\1\3\0\0\4\2\1c"
    )


def rows(number: int = 1) -> Event:
    body = number.to_bytes(6, "little") + b"\0\0\2\0\1\1\0" + struct.pack("<i", 5)
    return event(EventType.WRITE_ROWS, body)


XID = event(EventType.XID, bytes(8))
DUMMY = event(EventType.WRITE_ROWS, b"\xff\xff\xff\0\0\0\1\0\2\0\0\0")


def placed(events: Iterable[Event]) -> Iterator[PlacedEvent]:
    """Each event at the next hundred."""
    for number, one in enumerate(events, start=1):
        start, end = Coordinates(FILE, 100 * number), Coordinates(FILE, 100 * number + 100)
        yield PlacedEvent(one, start, end)


def steps(*events: Event) -> list[Step]:
    return list(TransactionReader(SERVER, Charsets({}, {})).steps(placed(events)))


def stopped(*events: Event) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        steps(*events)
    return caught.value


def kinds(found: list[Step]) -> list[str]:
    return [type(step).__name__ for step in found]


def test_a_transaction_has_its_rows_and_one_end() -> None:
    found = steps(gtid(5), query("BEGIN"), table_map(), rows(), rows(), XID)
    assert kinds(found) == ["Rows", "Rows", "End"]
    first = found[0]
    assert isinstance(first, Rows)
    assert (first.table_map.database, first.table_map.table) == ("shop", "t")
    assert first.start == Coordinates(FILE, 400)
    assert found[-1] == End(first.transaction, Coordinates(FILE, 700))
    assert all(step.transaction is first.transaction for step in found)


def test_a_transaction_is_named_by_its_gtid_and_begins_at_that_event() -> None:
    (end,) = steps(gtid(5, committed_us=1_795_000_000_123_456), query("BEGIN"), XID)
    transaction = end.transaction
    assert transaction.id == transaction.gtid == f"{SERVER}:5"
    assert transaction.start == Coordinates(FILE, 100)
    assert transaction.committed_ms == 1_795_000_000_123
    assert (transaction.server_id, transaction.thread) == (7, 12)


def test_a_transaction_without_a_gtid_is_named_by_server_and_place() -> None:
    first, second = steps(
        gtid(0, kind=EventType.ANONYMOUS_GTID), query("BEGIN"), XID, query("BEGIN"), XID
    )
    assert first.transaction.gtid is None
    assert first.transaction.id == f"{SERVER}:{FILE}:100"
    assert second.transaction.id == f"{SERVER}:{FILE}:400"
    assert second.transaction.committed_ms == 1_795_000_000_000


def test_a_gtid_names_one_transaction_only() -> None:
    first, second = steps(gtid(5), query("BEGIN"), XID, query("BEGIN"), XID)
    assert first.transaction.gtid == f"{SERVER}:5"
    assert second.transaction.gtid is None


def test_a_commit_that_is_written_as_a_statement_ends_a_transaction_too() -> None:
    found = steps(gtid(5), query("BEGIN"), table_map(), rows(), query("COMMIT"))
    assert kinds(found) == ["Rows", "End"]


def test_a_ddl_statement_is_a_transaction_of_its_own() -> None:
    statement, end = steps(gtid(5), query("ALTER TABLE t ADD c INT"))
    assert isinstance(statement, Statement)
    assert (statement.kind, statement.query.database) == (Kind.DDL, "shop")
    assert end == End(statement.transaction, Coordinates(FILE, 300))


def test_create_select_is_one_transaction_of_ddl_and_rows() -> None:
    found = steps(
        gtid(5), query("BEGIN"), query("CREATE TABLE t (c INT)"), table_map(), rows(), XID
    )
    assert kinds(found) == ["Statement", "Rows", "End"]


@pytest.mark.parametrize("sql", ["GRANT SELECT ON *.* TO u", "CREATE USER u", "FLUSH TABLES"])
def test_a_harmless_statement_moves_the_place_and_says_nothing(sql: str) -> None:
    (end,) = steps(gtid(5), query(sql))
    assert end == End(end.transaction, Coordinates(FILE, 300))
    assert end.transaction.gtid == f"{SERVER}:5"


def test_savepoints_and_an_empty_rollback_change_nothing() -> None:
    found = steps(
        gtid(5), query("BEGIN"), query("SAVEPOINT s"), query("ROLLBACK TO s"), query("ROLLBACK")
    )
    assert kinds(found) == ["End"]


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_a_rollback_after_rows_stops_the_stream(sql: str) -> None:
    error = stopped(gtid(5), query("BEGIN"), table_map(), rows(), query(sql))
    assert isinstance(error, UnsupportedEvent)
    assert error.where["gtid"] == f"{SERVER}:5"


def test_rows_of_an_earlier_transaction_do_not_count_against_a_rollback() -> None:
    found = steps(query("BEGIN"), table_map(), rows(), XID, query("BEGIN"), query("ROLLBACK"))
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
    caught = stopped(gtid(5), query("BEGIN"), query(sql))
    assert type(caught) is error
    assert str(caught.where["coordinates"]) == f"{FILE}:300"
    assert caught.where["gtid"] == f"{SERVER}:5"
    assert "secret" not in str(caught)


def test_the_steps_before_what_stops_the_stream_are_given() -> None:
    reader = TransactionReader(SERVER, Charsets({}, {}))
    found = reader.steps(placed([query("BEGIN"), XID, query("FROBNICATE t")]))
    assert isinstance(next(found), End)
    with pytest.raises(UnsupportedEvent):
        next(found)


def test_a_file_that_ends_within_a_transaction_is_damage() -> None:
    begun = gtid(5), query("BEGIN"), table_map(), rows()
    assert isinstance(stopped(*begun, event(EventType.FORMAT_DESCRIPTION)), CorruptEvent)


@pytest.mark.parametrize("kind", [EventType.GTID, EventType.ANONYMOUS_GTID])
def test_a_transaction_that_begins_within_another_is_damage_and_not_a_part_of_it(kind: int) -> None:
    error = stopped(gtid(5), query("BEGIN"), table_map(), rows(), gtid(6, kind=kind))
    assert isinstance(error, CorruptEvent)
    assert error.where["gtid"] == f"{SERVER}:5"


def test_what_the_server_makes_up_for_a_new_connection_ends_no_transaction() -> None:
    artificial = event(EventType.ROTATE, end_pos=0)
    assert kinds(steps(gtid(5), query("BEGIN"), artificial, XID)) == ["End"]


def test_a_tables_number_holds_for_its_file_only() -> None:
    error = stopped(query("BEGIN"), table_map(), rows(), XID, event(EventType.ROTATE), rows())
    assert isinstance(error, MalformedEvent)
    assert "table id 1" in str(error)


def test_a_number_may_come_to_mean_another_table() -> None:
    found = steps(table_map(1, "a"), rows(1), table_map(1, "b"), rows(1), XID)
    assert [step.table_map.table for step in found if isinstance(step, Rows)] == ["a", "b"]


def test_the_rows_event_that_only_ends_a_statement_has_no_rows() -> None:
    assert kinds(steps(query("BEGIN"), DUMMY, XID)) == ["End"]


@pytest.mark.parametrize(
    "cut",
    [event(EventType.QUERY, b"\1\2"), event(EventType.TABLE_MAP, b"\1"), event(EventType.GTID)],
)
def test_an_event_whose_body_is_cut_is_refused_by_its_name_and_place(cut: Event) -> None:
    error = stopped(cut)
    assert isinstance(error, MalformedEvent)
    assert EventType(cut.type).name in str(error)
    assert f"{FILE}:100" in str(error)


def raw(one: Event) -> bytes:
    size = HEADER.size + len(one.body)
    return HEADER.pack(one.timestamp, one.type, one.server_id, size, 0, 0) + one.body


def test_a_compressed_transaction_has_the_steps_that_a_plain_one_has() -> None:
    content = b"".join(map(raw, (query("BEGIN"), table_map(), rows(), XID)))
    packed = zstandard.compress(content)
    fields = b"\1\3\xfc" + struct.pack("<H", len(packed)) + b"\2\1\0"
    fields += b"\3\3\xfc" + struct.pack("<H", len(content)) + b"\0"
    found = steps(gtid(5), event(EventType.TRANSACTION_PAYLOAD, fields + packed))
    assert kinds(found) == ["Rows", "End"]
    assert found[0].transaction.gtid == f"{SERVER}:5"
    assert found[-1] == End(found[0].transaction, Coordinates(FILE, 300))
