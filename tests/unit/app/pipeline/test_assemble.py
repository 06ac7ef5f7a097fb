"""Over random histories: numbers without gaps, every change by its name once, and cuts that nobody can see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from app.pipeline.assemble import Assembler, Piece, Rules
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.pipeline.envelope import Outgoing
from app.pipeline.filter import TableFilter
from app.pipeline.versions import VersionBook
from app.publisher import _after
from connectors.errors import ResumeMismatch
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables.cursor import Cursor, Resume
from tables.journal import DestinationState
from tables.version import TableVersion
from tests.unit.app.pipeline.history import CHARSETS, UUID, Action, RowsOf, Source, histories

BORDERS = "aq.__transactions.shop"
WHOLE = 1_000_000
SIZES = st.sampled_from([1, 700, 2000, WHOLE])
"""Bytes above which a transaction is cut: after each row, after some, never."""


def first_cursor(*, gtids: bool) -> Cursor:
    offset = SourceOffset(
        server_uuid=UUID,
        coordinates=Coordinates("binlog.000001", 4),
        gtid_set=GtidSet() if gtids else None,
    )
    return Cursor(
        destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset, resume=None
    )


def run(
    source: Source,
    cursor: Cursor,
    known: dict[tuple[str, str], TableVersion],
    *,
    max_bytes: int,
    borders: bool = True,
) -> list[Piece]:
    rules = Rules(
        prefix="aq",
        destination="shop",
        filter=TableFilter(r"shop\..*", ""),
        borders=borders,
        max_bytes=max_bytes,
    )
    book = VersionBook("shop", prefix="aq", charsets=CHARSETS, known=known)
    steps = source.steps(cursor.offset.coordinates)
    return list(Assembler(rules, cursor=cursor, book=book).pieces(steps))


def records_of(pieces: Iterable[Piece]) -> list[Outgoing]:
    return [record for piece in pieces for record in piece.records]


def value_of(record: Outgoing) -> Any:
    return None if record.value is None else orjson.loads(record.value)


def change_ids(record: Outgoing) -> list[str]:
    return [value.decode() for name, value in record.headers if name == "change_id"]


def without_the_run(record: Outgoing) -> Any:
    """A record without what belongs to the run that published it."""
    value = value_of(record)
    if value is not None:
        value.pop("epoch", None)
        if "source" in value:
            value.pop("ts_ms")
            value["source"].pop("epoch")
    return record.topic, record.key, value, record.headers


@settings(deadline=None, max_examples=60)
@given(history=histories, gtids=st.booleans(), max_bytes=SIZES)
def test_each_change_is_published_once_by_its_name_and_numbered_without_gaps(
    history: Any, gtids: bool, max_bytes: int
) -> None:
    source = Source(history, gtids=gtids)
    records = records_of(run(source, first_cursor(gtids=gtids), {}, max_bytes=max_bytes))
    changes, numbers = [], []
    for record in records:
        if record.topic == BORDERS:
            continue
        value = value_of(record)
        op = "tombstone" if value is None else value.get("op", "ddl")
        key = None if record.key is None else record.key.decode()
        changes.append((record.topic, op, *change_ids(record), key))
        if value is not None:
            numbers.append(value["source"]["seq"])
    assert changes == list(source.changes())
    assert numbers == list(range(1, len(numbers) + 1))


@settings(deadline=None, max_examples=60)
@given(history=histories, max_bytes=SIZES)
def test_borders_count_what_stands_between_them_and_one_part_is_the_last(
    history: Any, max_bytes: int
) -> None:
    pieces = run(Source(history, gtids=True), first_cursor(gtids=True), {}, max_bytes=max_bytes)
    parts: dict[str, list[dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    begun = None
    for record in records_of(pieces):
        value = value_of(record)
        if record.topic != BORDERS:
            if value is not None and "op" in value:
                assert value["transaction"]["id"] == begun
                counts[record.topic] += 1
        elif value["status"] == "BEGIN":
            assert begun is None
            assert value["id"] not in parts
            begun = value["id"]
        else:
            assert value["id"] == begun
            told = {one["topic"]: one["event_count"] for one in value["data_collections"]}
            assert told == dict(counts)
            assert value["event_count"] == counts.total()
            parts.setdefault(value["id"], []).append(value)
            counts.clear()
            begun = None if value["last"] else begun
    assert begun is None
    for ends in parts.values():
        assert [end["part"] for end in ends] == list(range(1, len(ends) + 1))
        assert [end["last"] for end in ends] == [False] * (len(ends) - 1) + [True]


@settings(deadline=None, max_examples=60)
@given(history=histories, max_bytes=SIZES)
def test_a_rows_order_counts_the_published_rows_of_its_transaction(
    history: Any, max_bytes: int
) -> None:
    pieces = run(Source(history, gtids=True), first_cursor(gtids=True), {}, max_bytes=max_bytes)
    orders: dict[str, list[int]] = {}
    for value in map(value_of, records_of(pieces)):
        if value and "op" in value:
            place = value["transaction"]
            orders.setdefault(place["id"], []).append(place["total_order"])
    for found in orders.values():
        assert found == list(range(1, len(found) + 1))


@settings(deadline=None, max_examples=60)
@given(history=histories, gtids=st.booleans(), max_bytes=SIZES, borders=st.booleans())
@example(
    history=[[RowsOf(("shop", "log"), "c", ((1, 1),))]], gtids=True, max_bytes=1, borders=True
).via("cut behind the last row, so that only the end of the transaction is left")
def test_a_run_cut_anywhere_and_resumed_publishes_what_an_uncut_one_does(
    history: Any, gtids: bool, max_bytes: int, borders: bool
) -> None:
    source, cursor = Source(history, gtids=gtids), first_cursor(gtids=gtids)
    pieces = run(source, cursor, {}, max_bytes=max_bytes, borders=borders)
    whole = [without_the_run(record) for record in records_of(pieces)]
    versions = [version for piece in pieces for version in piece.versions]
    state = DestinationState("shop")
    for n, piece in enumerate(pieces, start=1):
        cursor = _after(cursor, piece)
        for version in piece.versions:
            state.versions[version.database, version.table] = version
        stored = Cursor.from_json(orjson.loads(orjson.dumps(cursor.to_json())))
        state.cursor = replace(stored, epoch=2)
        assert state.is_whole()
        later = run(source, state.cursor, state.versions, max_bytes=max_bytes, borders=borders)
        both = records_of(pieces[:n]) + records_of(later)
        assert [without_the_run(record) for record in both] == whole
        announced = [version for one in (*pieces[:n], *later) for version in one.versions]
        assert announced == versions


@settings(deadline=None, max_examples=30)
@given(history=histories)
def test_a_version_is_announced_in_the_piece_of_its_first_row_or_before(history: Any) -> None:
    announced: dict[str, int] = {}
    for piece in run(Source(history, gtids=True), first_cursor(gtids=True), {}, max_bytes=1):
        for version in piece.versions:
            assert version.version == announced.get(version.topic, 0) + 1
            announced[version.topic] = version.version
        for record in piece.records:
            value = value_of(record)
            if value and value.get("op") in ("c", "u", "d"):
                assert value["source"]["schema"] == announced[record.topic]


def test_a_piece_within_a_transaction_begins_anew_at_its_first_event() -> None:
    events: list[Action] = [
        RowsOf(("other", "orders"), "c", ((1, 1),) * 3),
        RowsOf(("shop", "log"), "c", ((1, 1),) * 2),
    ]
    first, second, last = run(
        Source([events], gtids=True), first_cursor(gtids=True), {}, max_bytes=1
    )
    assert first.coordinates == second.coordinates == Coordinates("binlog.000001", 1000)
    assert first.resume == Resume(transaction_id=f"{UUID}:1", rows=4, published=1, part=1)
    assert first.gtids == second.gtids == []
    assert last.resume is None
    assert last.gtids == [f"{UUID}:1"]
    assert last.coordinates == Coordinates("binlog.000001", 2000)


def test_a_source_that_goes_on_with_another_transaction_is_refused() -> None:
    cursor = replace(
        first_cursor(gtids=True),
        resume=Resume(transaction_id=f"{UUID}:99", rows=1, published=1, part=1),
    )
    source = Source([[RowsOf(("shop", "log"), "c", ((1, 1),))]], gtids=True)
    with pytest.raises(ResumeMismatch, match=f"{UUID}:99 was published to row 1"):
        run(source, cursor, {}, max_bytes=WHOLE)


def test_a_transaction_without_a_published_row_moves_the_place_and_says_nothing() -> None:
    source = Source([[RowsOf(("other", "orders"), "c", ((1, 1),))]], gtids=True)
    (piece,) = run(source, first_cursor(gtids=True), {}, max_bytes=WHOLE)
    assert piece.records == []
    assert piece.gtids == [f"{UUID}:1"]
    assert piece.coordinates == Coordinates("binlog.000001", 2000)
