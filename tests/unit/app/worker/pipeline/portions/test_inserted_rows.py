"""Rows that enter between two transactions are numbered with the stream, and do not move it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.inserted_events import RowsEvent
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import InsertedRows, Portion
from connectors.errors import MalformedEvent
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import EventType
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.state.cursor import Cursor, Resume
from tests import made
from tests.unit.app.worker.pipeline.runs import (
    MARKERS,
    RULES,
    Record,
    records_of,
    run_by_turns,
    run_stage,
    spec_of,
)

TABLE, NEW = made.int_table(), made.int_table(2, "u")
BETWEEN = made.START
HEADER = made.HEADER.size


def cursor(resume: Resume | None = None) -> Cursor:
    offset = SourceOffset(server_uuid=made.SERVER, coordinates=made.START, gtid_set=GtidSet())
    return Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=7,
        versions=0,
        offset=offset,
        resume=resume,
    )


def transaction(number: int, *rows: int) -> Chunk:
    return made.chunk_of(
        made.gtid(number),
        made.query("BEGIN"),
        made.table_map(TABLE),
        made.int_rows(TABLE, *rows),
        made.xid(),
    )


def inserted(*bodies: bytes, described: bytes = made.table_map(NEW)[HEADER:]) -> InsertedRows:
    """One transaction without a source, with an event for each body."""
    whose = Transaction(BETWEEN.file, BETWEEN.pos, None, 0, "read:1", 1_000, 1)
    events = tuple(
        RowsEvent(whose, described, EventType.WRITE_ROWS, body, BETWEEN.pos, number)
        for number, body in enumerate(bodies)
    )
    return InsertedRows(start=BETWEEN, events=events)


def body(*numbers: int) -> bytes:
    return made.int_rows(NEW, *numbers)[HEADER:]


def rows(pieces: list[Piece]) -> list[Record]:
    return [one for one in records_of(pieces) if one.value and one.op == "c"]


def markers(pieces: list[Piece]) -> list[tuple[str, str]]:
    found = [one.value for one in records_of(pieces) if one.topic == MARKERS]
    return [(one["status"], one["id"]) for one in found]


def test_they_are_numbered_with_the_stream_and_move_neither_position_nor_gtids() -> None:
    portions: list[Chunk | Portion] = [
        transaction(1, 10, 11),
        inserted(body(20), body(21)),
        transaction(2, 12),
    ]
    before, own, after = pieces = run_stage(portions, cursor(), spec_of(RULES, cursor(), {}))
    assert [one.seq for one in rows(pieces)] == [8, 9, 10, 11, 12]
    assert {one.topic for one in rows([own])} == {"aq.shop.u"}
    assert (own.coordinates, own.trace.gtids, own.whole) == (before.coordinates, [], True)
    assert [one.trace.gtids for one in (before, after)] == [
        [(made.SERVER, 1, 1)],
        [(made.SERVER, 2, 2)],
    ]
    assert own.seq == 11
    assert [one.version for one in own.tables.versions] == [1]


def test_they_have_transaction_markers_where_those_are_published() -> None:
    for has_markers, kinds in ((True, ["BEGIN", "END"]), (False, [])):
        rules = replace(RULES, markers=has_markers)
        (own,) = run_stage([inserted(body(20))], cursor(), spec_of(rules, cursor(), {}))
        assert markers([own]) == [(kind, "read:1") for kind in kinds]


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_they_are_the_same_whichever_decoder_has_them(count: int, ahead: int) -> None:
    portions: list[Chunk | Portion] = [
        transaction(1, 10),
        inserted(body(20)),
        transaction(2, 12),
        inserted(body(21)),
    ]
    alone = run_stage(portions, cursor(), spec_of(RULES, cursor(), {}))
    turned = run_by_turns(portions, cursor(), count=count, ahead=ahead)
    result = [[(one.topic, one.key, one.seq) for one in rows(pieces)] for pieces in (alone, turned)]
    assert result[0] == result[1]


def test_a_transaction_that_an_earlier_run_published_a_part_of_continues_after_them() -> None:
    resume = Resume(transaction_id=f"{made.SERVER}:1", rows=1, published=1, part=1)
    portions: list[Chunk | Portion] = [inserted(body(20)), transaction(1, 10, 11, 12)]
    own, after = run_stage(portions, cursor(resume), spec_of(RULES, cursor(resume), {}))
    assert (own.resume, own.coordinates, own.whole) == (resume, made.START, True)
    assert markers([own]) == [("BEGIN", "read:1"), ("END", "read:1")]
    assert [one.value["source"]["row"] for one in rows([after])] == [1, 2]
    assert [one.seq for one in rows([own, after])] == [8, 9, 10]


def test_nothing_of_a_portion_is_published_of_which_an_event_cannot_be_read() -> None:
    portions: list[Chunk | Portion] = [inserted(body(20), body(21)[:-2])]
    (own,) = run_stage(portions, cursor(), spec_of(RULES, cursor(), {}))
    assert isinstance(own.error, MalformedEvent)
    assert (own.batches, own.tables.versions, own.seq) == ([], [], 7)


def test_its_size_is_that_of_its_events() -> None:
    described = made.table_map(NEW)[HEADER:]
    assert inserted(body(1), body(2)).size == 2 * (len(body(1)) + len(described))
