"""Over random histories, cut anywhere: numbers without gaps, every change by its name once, and cuts, decoders
and crashes that nobody can see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.worker.pipeline.publish.publisher import _after
from connectors.errors import UnsupportedEvent
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tests.properties.examples import examples
from tests.unit.app.worker.pipeline.actions import TABLES, RowsOf, cuts, histories
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import (
    EVERYWHERE,
    MARKERS,
    NOWHERE,
    RULES,
    WHOLE,
    assert_markers,
    by_topic,
    described,
    first_cursor,
    gtids_to,
    joined,
    pieces_of,
    records_of,
    rows_by_topic,
    run,
    run_by_turns,
    versions_of,
)

SIZES = st.sampled_from([1, 150, 600, WHOLE])
"""Bytes above which a transaction is published in parts: after each chunk, after some, never."""
ORDERS, LOG, OTHER = TABLES


@settings(deadline=None, max_examples=examples(60))
@given(
    history=histories,
    gtids=st.booleans(),
    max_bytes=SIZES,
    cut=cuts,
    partitions=st.sampled_from([1, 3]),
)
def test_each_change_is_published_once_by_its_name_and_numbered_without_gaps(
    history: Any, gtids: bool, max_bytes: int, cut: Any, partitions: int
) -> None:
    source = Source(history, gtids=gtids)
    pieces = pieces_of(source, cut, gtids=gtids, max_bytes=max_bytes, partitions=partitions)
    records = [record for record in records_of(pieces) if record.topic != MARKERS]
    changes = list(source.changes())
    named = [
        (
            record.topic,
            record.op,
            *(value.decode() for name, value in record.headers if name == "change_id"),
            None if record.key is None else record.key.decode(),
        )
        for record in records
    ]
    for key in {(change[0], change[3]) for change in [*changes, *named]}:
        expected = [change for change in changes if (change[0], change[3]) == key]
        assert [change for change in named if (change[0], change[3]) == key] == expected
    with_value = [
        (record.seq, change) for record, change in zip(records, named, strict=True) if record.value
    ]
    in_order = sorted(with_value)
    assert [number for number, _ in in_order] == list(range(1, len(in_order) + 1))
    assert [change for _, change in in_order] == [
        change for change in changes if change[1] != "tombstone"
    ]
    assert not pieces or pieces[-1].seq == len(in_order)
    for position in {(record.topic, record.partition) for record in records}:
        numbers = [
            record.seq
            for record in records
            if (record.topic, record.partition) == position and record.value
        ]
        assert numbers == sorted(numbers)


@settings(deadline=None, max_examples=examples(60))
@given(history=histories, max_bytes=SIZES, cut=cuts)
def test_transaction_markers_count_the_events_between_them_and_one_part_is_the_last(
    history: Any, max_bytes: int, cut: Any
) -> None:
    source = Source(history, gtids=True)
    assert_markers(joined(pieces_of(source, cut, max_bytes=max_bytes)))


@settings(deadline=None, max_examples=examples(60))
@given(history=histories, max_bytes=SIZES, cut=cuts)
def test_a_rows_order_counts_the_published_rows_of_its_transaction(
    history: Any, max_bytes: int, cut: Any
) -> None:
    orders: dict[str, list[tuple[int, int]]] = {}
    for record in records_of(pieces_of(Source(history, gtids=True), cut, max_bytes=max_bytes)):
        if record.value and "op" in record.value:
            position = record.value["transaction"]
            orders.setdefault(position["id"], []).append((record.seq, position["total_order"]))
    for found in orders.values():
        assert [order for _, order in sorted(found)] == list(range(1, len(found) + 1))


@settings(deadline=None, max_examples=examples(60))
@given(history=histories, gtids=st.booleans(), cut=cuts)
def test_what_is_published_does_not_depend_on_where_chunks_are_cut(
    history: Any, gtids: bool, cut: Any
) -> None:
    source = Source(history, gtids=gtids)
    whole = pieces_of(source, gtids=gtids, statements=True)
    parts = pieces_of(source, cut, gtids=gtids, statements=True)
    assert by_topic(records_of(parts)) == by_topic(records_of(whole))
    assert versions_of(parts) == versions_of(whole)


@settings(deadline=None, max_examples=examples(60))
@given(
    history=histories,
    gtids=st.booleans(),
    max_bytes=SIZES,
    markers=st.booleans(),
    cut=cuts,
    other=cuts,
)
@example(
    history=[[RowsOf(LOG, "c", ((1, 1),))]],
    gtids=True,
    max_bytes=1,
    markers=True,
    cut=EVERYWHERE,
    other=NOWHERE,
).via("cut after the last row, so that only the end of the transaction is left")
def test_a_run_that_ends_after_any_commit_and_resumes_publishes_what_an_uncut_one_does(
    history: Any, gtids: bool, max_bytes: int, markers: bool, cut: Any, other: Any
) -> None:
    source = Source(history, gtids=gtids)
    rules = replace(RULES, max_bytes=max_bytes, markers=markers)
    cursor = first_cursor(source, gtids=gtids)
    pieces = joined(run(source.chunks(source.first, cut), cursor, rules=rules))
    whole, versions = records_of(pieces), versions_of(pieces)
    state = DestinationState("shop")
    for n, piece in enumerate(pieces, start=1):
        cursor = _after(cursor, piece)
        for version in piece.tables.versions:
            state.versions[version.database, version.table] = version
        stored = Cursor.from_json(orjson.loads(orjson.dumps(cursor.to_json())))
        state.cursor = at = replace(stored, epoch=2)
        assert state.is_whole()
        position = cursor.offset.coordinates
        later = joined(run(source.chunks(position, cut), at, state.versions, rules))
        assert by_topic(records_of(pieces[:n] + later)) == by_topic(whole)
        assert versions_of(pieces[:n] + later) == versions
        # The source may be cut elsewhere the next time; then only the parts are others.
        later = joined(run(source.chunks(position, other), at, state.versions, rules))
        assert rows_by_topic(records_of(pieces[:n] + later)) == rows_by_topic(whole)
        assert versions_of(pieces[:n] + later) == versions
        if markers:
            assert_markers(pieces[:n] + later)


@settings(deadline=None, max_examples=examples(60))
@given(
    history=histories,
    gtids=st.booleans(),
    max_bytes=SIZES,
    cut=cuts,
    count=st.integers(1, 3),
    ahead=st.integers(0, 4),
)
def test_any_number_of_stages_by_turns_give_what_one_gives(
    history: Any, gtids: bool, max_bytes: int, cut: Any, count: int, ahead: int
) -> None:
    source = Source(history, gtids=gtids)
    cursor, rules = first_cursor(source, gtids=gtids), replace(RULES, max_bytes=max_bytes)
    chunks = list(source.chunks(source.first, cut))
    one = run(chunks, cursor, rules=rules)
    several = run_by_turns(chunks, cursor, rules=rules, count=count, ahead=ahead)
    assert [described(piece) for piece in several] == [described(piece) for piece in one]


@settings(deadline=None, max_examples=examples(60))
@given(
    history=histories,
    gtids=st.booleans(),
    max_bytes=SIZES,
    cut=cuts,
    at=st.integers(0, 200),
    count=st.integers(1, 2),
)
def test_an_error_leaves_what_was_whole_before_it_and_nothing_of_what_it_broke(
    history: Any, gtids: bool, max_bytes: int, cut: Any, at: int, count: int
) -> None:
    broken, sound = Source(history, gtids=gtids, broken=at), Source(history, gtids=gtids)
    cursor, rules = first_cursor(sound, gtids=gtids), replace(RULES, max_bytes=max_bytes)
    chunks = list(broken.chunks(broken.first, cut))
    pieces = run(chunks, cursor, rules=rules)
    if count > 1:
        turns = run_by_turns(chunks, cursor, rules=rules, count=count, ahead=2)
        assert [described(piece) for piece in turns[: len(pieces)]] == [
            described(piece) for piece in pieces
        ]
    error = pieces[-1].error
    assert isinstance(error, UnsupportedEvent)
    assert error.context["coordinates"] == broken.broken
    assert broken.broken is not None
    commits = joined(pieces)
    published = records_of(commits)
    names = {one.value["transaction"]["id"] for one in published if one.value and "op" in one.value}
    ended = broken.ended(broken.broken)
    if max_bytes == WHOLE:
        # Nothing of a transaction was published that has not ended.
        assert names <= {broken.name(number) for number in range(1, ended + 1)}
        assert all(commit.resume is None for commit in commits)
    assert names <= {broken.name(number) for number in range(1, ended + 2)}
    # And once the source is repaired, nothing is lost or said twice.
    state = DestinationState("shop")
    for commit in commits:
        cursor = _after(cursor, commit)
        for version in commit.tables.versions:
            state.versions[version.database, version.table] = version
    position = cursor.offset.coordinates
    if gtids:
        assert cursor.offset.gtid_set == gtids_to(broken.ended(position))
    if pieces[-1].whole:
        assert broken.ended(position) == ended
    later = run(sound.chunks(position, cut), cursor, state.versions, rules)
    whole = joined(
        run(sound.chunks(sound.first, cut), first_cursor(sound, gtids=gtids), rules=rules)
    )
    assert rows_by_topic(records_of([*commits, *joined(later)])) == rows_by_topic(records_of(whole))
    assert_markers([*commits, *joined(later)])


@settings(deadline=None, max_examples=examples(40))
@given(history=histories, cut=cuts, max_bytes=SIZES)
def test_the_gtids_of_pieces_are_those_of_the_transactions_that_ended(
    history: Any, cut: Any, max_bytes: int
) -> None:
    source = Source(history, gtids=True)
    cursor = first_cursor(source)
    result: list[int] = []
    for piece in joined(pieces_of(source, cut, max_bytes=max_bytes)):
        cursor = _after(cursor, piece)
        assert cursor.offset.gtid_set == gtids_to(source.ended(piece.coordinates))
        result += [
            number for _, first, last in piece.trace.gtids for number in range(first, last + 1)
        ]
    assert result == [*range(1, len(history) + 1)]


@settings(deadline=None, max_examples=examples(30))
@given(history=histories, cut=cuts)
def test_a_version_is_announced_in_the_piece_of_its_first_row_or_before(
    history: Any, cut: Any
) -> None:
    announced: dict[str, list[TableVersion]] = {}
    for piece in pieces_of(Source(history, gtids=True), cut, max_bytes=1):
        for version in piece.tables.versions:
            announced.setdefault(version.topic, []).append(version)
            assert version.version == len(announced[version.topic])
        assert piece.version_count == sum(map(len, announced.values()))
        for record in records_of([piece]):
            if record.value and record.value.get("op") in ("c", "u", "d"):
                version = announced[record.topic][record.value["source"]["schema"] - 1]
                image = record.value["after"] or record.value["before"]
                assert list(image) == [column.name for column in version.definition.columns]
