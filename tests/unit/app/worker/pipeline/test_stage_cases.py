"""Single histories, and what the stage makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.operator.cursor import moved_cursor
from app.worker.pipeline.publish.publisher import _after
from connectors.errors import ResumeMismatch
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import PackedMapping
from tables.state.cursor import Resume
from tables.state.journal.state import DestinationState
from tests.made import SERVER as UUID
from tests.made import chunk_of, event, gtid
from tests.unit.app.worker.pipeline.actions import TABLES, Action, Ddl, RowsOf
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import (
    EVERYWHERE,
    NOWHERE,
    RULES,
    WHOLE,
    by_topic,
    first_cursor,
    joined,
    pickled,
    pieces_of,
    records_of,
    run,
)

ORDERS, LOG, OTHER = TABLES


def test_rows_of_tables_that_are_not_captured_count_in_the_ordinals_of_those_after_them() -> None:
    actions: list[Action] = [
        RowsOf(OTHER, "c", ((1, 1),) * 3),
        RowsOf(LOG, "c", ((1, 1),) * 2),
        RowsOf(OTHER, "u", ((1, 2),) * 4),
        Ddl("CREATE VIEW v AS SELECT 1"),
        RowsOf(OTHER, "d", ((1, 1),)),
        RowsOf(LOG, "c", ((1, 1),)),
    ]
    source = Source([actions, actions], gtids=True)
    for cut in (NOWHERE, EVERYWHERE, (True, False), (False, False, True)):
        for max_bytes in (1, WHOLE):
            records = records_of(pieces_of(source, cut, max_bytes=max_bytes))
            rows = [record.value["source"]["row"] for record in records if record.op == "c"]
            assert rows == [3, 4, 10] * 2


def test_a_piece_within_a_transaction_starts_over_at_its_first_event() -> None:
    events: list[Action] = [
        RowsOf(OTHER, "c", ((1, 1),) * 3),
        RowsOf(LOG, "c", ((1, 1),) * 3),
    ]
    # It is the first one of its file, so that its beginning is not the end of the one before.
    source = Source([[], [], [], events], gtids=True)
    *_, first, second, last = joined(pieces_of(source, EVERYWHERE, max_bytes=1))
    assert first.coordinates == second.coordinates == source.starts[3]
    assert first.resume == Resume(transaction_id=f"{UUID}:4", rows=5, published=2, part=2)
    assert second.resume == Resume(transaction_id=f"{UUID}:4", rows=6, published=3, part=3)
    assert first.trace.gtids == second.trace.gtids == []
    assert last.resume is None
    assert last.trace.gtids == [(UUID, 4, 4)]
    assert last.coordinates == source.ends[3]


def test_a_chunk_within_a_transaction_is_not_whole_while_that_one_is_small() -> None:
    source = Source([[RowsOf(LOG, "c", ((1, 1),) * 6)]], gtids=True)
    assert [piece.whole for piece in pieces_of(source, EVERYWHERE)] == [False] * 4 + [True]
    begin, *parts = pieces_of(source, EVERYWHERE, max_bytes=1)
    assert (begin.resume, begin.whole) == (None, False)
    assert [piece.resume is not None for piece in parts] == [True] * 6 + [False]
    assert all(piece.whole for piece in parts)


@pytest.mark.remedy("ResumeMismatch")
def test_a_source_that_continues_with_another_transaction_is_refused_until_the_cursor_is_set() -> (
    None
):
    source = Source([[RowsOf(LOG, "c", ((1, 1),))]], gtids=True)
    resume = Resume(transaction_id=f"{UUID}:99", rows=1, published=1, part=1)
    cursor = replace(first_cursor(source), resume=resume)
    with pytest.raises(ResumeMismatch, match=f"{UUID}:99 was published to row 1"):
        run(source.chunks(source.first, NOWHERE), cursor)
    state = DestinationState(cursor.destination)
    state.cursor = cursor
    moved = moved_cursor(cursor.offset, state, cursor.installation, is_back=False)
    assert records_of(run(source.chunks(source.first, NOWHERE), moved))


@pytest.mark.parametrize("first", [gtid(1), event(99)], ids=["announced", "an error before it"])
def test_where_a_transaction_continues_is_kept_until_it_is_reached(first: bytes) -> None:
    """A chunk may hold but the event that announces it, or end before it by an error."""
    source = Source([[RowsOf(LOG, "c", ((1, 1),) * 2)]], gtids=True)
    resume = Resume(transaction_id=f"{UUID}:1", rows=1, published=1, part=1)
    cursor = replace(first_cursor(source), resume=resume, seq=1)
    (piece,) = run([chunk_of(first, start=source.first)], cursor)
    assert piece.whole
    assert _after(cursor, piece).resume == resume


def test_a_transaction_continues_after_its_published_rows_if_a_chunk_has_only_its_start() -> None:
    """An XA transaction begins with such a chunk if its rows are read again."""
    source = Source([[RowsOf(LOG, "c", ((1, 1),) * 3)]], gtids=True)
    resume = Resume(transaction_id=f"{UUID}:1", rows=1, published=1, part=1)
    cursor = replace(first_cursor(source), resume=resume, seq=1)
    chunks = list(source.chunks(source.first, EVERYWHERE))
    begin, *_ = pieces = run(chunks, cursor)
    assert (begin.records, begin.whole) == (0, False)
    rows = [one.value["source"]["row"] for one in records_of(pieces) if one.op == "c"]
    assert rows == [1, 2]
    (piece,) = joined(pieces)
    assert _after(cursor, piece).resume is None
    other = replace(cursor, resume=replace(resume, transaction_id=f"{UUID}:99"))
    with pytest.raises(ResumeMismatch):
        run(chunks[:1], other)


def test_a_transaction_without_a_published_row_moves_the_place_and_says_nothing() -> None:
    source = Source([[RowsOf(OTHER, "c", ((1, 1),))]], gtids=True)
    for cut in (NOWHERE, EVERYWHERE):
        (piece,) = joined(pieces_of(source, cut))
        assert piece.batches == []
        assert piece.tables.versions == []
        assert piece.trace.gtids == [(UUID, 1, 1)]
        assert piece.coordinates == source.ends[0]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd", "gzip", "snappy"])
def test_batches_are_compressed_as_the_rules_say_and_hold_the_same(compression: str | None) -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1), (2, 2)) * 20)]], gtids=True)
    plain = records_of(pieces_of(source))
    assert by_topic(records_of(pieces_of(source, compression=compression))) == by_topic(plain)
    small = pieces_of(source, max_batch_bytes=1000)
    assert len(small[0].batches) > 5
    assert by_topic(records_of(small)) == by_topic(plain)


def test_the_statement_is_published_with_its_rows_where_the_rules_say_so() -> None:
    source = Source([[RowsOf(LOG, "c", ((1, 1),) * 3)], [RowsOf(LOG, "c", ((1, 1),))]], gtids=True)
    for cut in (NOWHERE, EVERYWHERE):
        records = [
            one for one in records_of(pieces_of(source, cut, statements=True)) if one.op == "c"
        ]
        queries = [record.value["source"]["query"] for record in records]
        assert queries == ["statement 0 of 1"] * 3 + ["statement 0 of 2"]
        for record in records_of(pieces_of(source, cut)):
            assert "query" not in record.value.get("source", {})


def test_events_are_counted_by_type_and_by_what_was_done_with_them() -> None:
    source = Source([[RowsOf(OTHER, "c", ((1, 1),) * 3), RowsOf(LOG, "c", ((1, 1),))]], gtids=True)
    for cut in (NOWHERE, EVERYWHERE):
        chunks = list(source.chunks(source.first, cut))
        chunks[0] = replace(chunks[0], passed={4: 1, 15: 2})
        pieces = run(chunks, first_cursor(source))
        (piece,) = joined(pieces)
        assert piece.counts.events == {
            (2, "decoded"): 1,
            (4, "passed"): 1,
            (15, "passed"): 2,
            (16, "decoded"): 1,
            (19, "decoded"): 2,
            (29, "passed"): 2,
            (30, "decoded"): 1,
            (30, "filtered"): 2,
            (33, "decoded"): 1,
        }


def test_a_decoder_packs_its_mapping_once_it_meets_no_new_table_any_more() -> None:
    mapping = from_yaml("{tables: {trade.log: {from: [shop.log], topic: all}}}")
    routes = pickled(replace(RULES.routes, mapping=mapping))
    source = Source([[RowsOf(LOG, "c", ((1, 1),))] for _ in range(30)], gtids=True)
    records = records_of(pieces_of(source, EVERYWHERE, routes=routes))
    assert [one.topic for one in records if one.op == "c"] == ["aq.all"] * 30
    assert isinstance(routes.mapping, PackedMapping)
    assert not routes.mapping.is_unpacked
