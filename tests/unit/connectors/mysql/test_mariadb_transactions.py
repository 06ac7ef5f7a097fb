"""Transactions as MariaDB writes them: opened by their GTID, ended by a lone statement, and without offsets."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from connectors.errors import CorruptEvent
from connectors.mysql.binlog.mariadb_events import Alter
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from tests.made import FILE, SERVER, START, chunk_of, int_rows, int_table, places, query, xid
from tests.made import gtid as mysql_gtid
from tests.made import table_map as mapped
from tests.steps import End, Recorded, Rows, Statement, Step, steps_of
from tests.unit.connectors.mysql.mariadb_made import (
    STANDALONE,
    annotation,
    compressed_query,
    compressed_rows,
    gtid,
)

T = int_table()
MAP, ROWS, XID = mapped(T), int_rows(T, 5), xid()


def reader() -> TransactionReader:
    return TransactionReader(SERVER, Charsets({}, {}), mariadb=True)


def steps(*events: bytes) -> list[Step]:
    return list(steps_of([chunk_of(*events)], reader()))


def kinds(found: list[Step]) -> list[str]:
    return [type(step).__name__ for step in found]


def test_a_gtid_opens_its_transaction_without_a_begin() -> None:
    events = gtid(5, domain=3), MAP, ROWS, XID
    rows, end = steps(*events)
    transaction = rows.transaction
    assert isinstance(rows, Rows)
    assert transaction.id == transaction.gtid == "3-7-5"
    assert (transaction.source, transaction.number) == ("3-7", 5)
    assert transaction.start == START
    assert transaction.committed_ms == 1_795_000_000_000
    assert (transaction.server_id, transaction.thread) == (7, None)
    assert end == End(transaction, places(*events)[-1])


def test_one_without_an_event_is_open_until_its_end() -> None:
    read = reader()
    read.read(chunk_of(gtid(5)), Recorded())
    assert read.open is not None
    assert read.open.gtid == "0-7-5"
    assert kinds(steps(gtid(5), XID)) == ["End"]


@pytest.mark.parametrize("statement", [query, compressed_query])
def test_a_lone_statement_ends_its_transaction(statement: Callable[[str], bytes]) -> None:
    found = steps(
        *(gtid(5, flags=STANDALONE), statement("DROP TABLE t")),
        *(gtid(6, flags=STANDALONE), statement("CREATE USER u")),
    )
    assert kinds(found) == ["Statement", "End", "End"]
    assert [step.transaction.gtid for step in found] == ["0-7-5", "0-7-5", "0-7-6"]


def test_a_statement_among_others_does_not_end_it() -> None:
    events = gtid(5), query("CREATE TABLE t (c INT)"), query("SAVEPOINT s"), MAP, ROWS
    assert kinds(steps(*events, query("COMMIT"))) == ["Statement", "Rows", "End"]


def test_compressed_rows_and_statements_are_those_they_were_made_from() -> None:
    plain = steps(gtid(5), MAP, ROWS, query("COMMIT"))
    rows, end = steps(gtid(5), MAP, compressed_rows(ROWS), compressed_query("COMMIT"))
    assert isinstance(rows, Rows)
    assert isinstance(plain[0], Rows)
    assert (rows.event_type, rows.body) == (plain[0].event_type, plain[0].body)
    assert isinstance(end, End)


def test_an_annotation_is_the_text_of_the_rows_after_it() -> None:
    found = steps(gtid(5), annotation("INSERT …"), MAP, ROWS, XID, gtid(6), MAP, ROWS, XID)
    assert [step.query for step in found if isinstance(step, Rows)] == ["INSERT …", None]


@pytest.mark.parametrize("part", [Alter.START, Alter.ROLLBACK, Alter.COMMIT])
def test_an_alter_in_two_phases_is_published_where_it_is_committed(part: Alter) -> None:
    more = bytes([part]) + (struct.pack("<Q", 4) if part != Alter.START else b"")
    events = gtid(5, flags=STANDALONE, more=more), query("ALTER TABLE t ADD c INT")
    expected = ["Statement", "End"] if part == Alter.COMMIT else ["End"]
    assert kinds(steps(*events)) == expected
    later = steps(*events, gtid(6, flags=STANDALONE), query("DROP TABLE t"))
    assert kinds(later) == [*expected, "Statement", "End"]


def without_offsets(chunk: Chunk, *, first: int, last: int) -> Chunk:
    """The chunk as sent by a server that leaves these events' offsets at 0."""
    data, at = bytearray(chunk.data), 0
    for number in range(last + 1):
        if number >= first:
            data[at + 13 : at + 17] = bytes(4)
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return replace(chunk, data=bytes(data))


def test_events_without_offsets_stand_where_their_transaction_begins() -> None:
    events = gtid(5), MAP, ROWS, ROWS, XID, gtid(6), MAP, ROWS, XID
    at = places(*events)
    chunk = without_offsets(chunk_of(*events), first=1, last=3)
    found = list(steps_of([chunk], reader()))
    assert [step.start for step in found if isinstance(step, Rows)] == [at[0], at[0], at[7]]
    assert [step.end for step in found if isinstance(step, End)] == [at[5], at[9]]
    # Who cuts does not know where such an event is, and says where the chunk before it began.
    head, rest = events[:2], events[3:5]
    later = chunk_of(*rest, start=Coordinates(FILE, 50), context=head, context_start=at[0])
    one, _ = steps_of([without_offsets(later, first=0, last=0)], reader())
    assert isinstance(one, Rows)
    assert one.start == at[0]


def test_a_chunk_that_begins_within_a_transaction_continues_with_it() -> None:
    later = chunk_of(ROWS, XID, context=(gtid(5), annotation("I"), MAP), context_start=START)
    rows, end = steps_of([later], reader())
    assert isinstance(rows, Rows)
    assert (rows.transaction.gtid, rows.query, rows.transaction.start) == ("0-7-5", "I", START)
    assert end.transaction is rows.transaction
    lone = chunk_of(query("COMMIT"), context=(gtid(5),), context_start=START)
    assert kinds(list(steps_of([lone], reader()))) == ["End"]


def test_a_transaction_that_begins_within_another_is_damage() -> None:
    for second in (gtid(6), mysql_gtid(6)):
        with pytest.raises(CorruptEvent) as caught:
            steps(gtid(5), MAP, ROWS, second)
        assert caught.value.context["gtid"] == "0-7-5"
        assert str(caught.value.context["coordinates"]).startswith(FILE)


def test_a_statement_has_its_transactions_place() -> None:
    events = gtid(5, flags=STANDALONE), query("DROP TABLE t")
    statement, _ = steps(*events)
    assert isinstance(statement, Statement)
    assert statement.start == places(*events)[1]
