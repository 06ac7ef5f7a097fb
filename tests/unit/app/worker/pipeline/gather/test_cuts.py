"""A chunk whose records are more than one Kafka transaction takes comes as several pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.pipeline.gather.captured_tables import Unpublished
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.publish.publisher import _after
from app.worker.pipeline.stage import StageSpec
from app.worker.schemas.quarantine_release import Release
from connectors.errors import UnsupportedEvent
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.state.cursor import Cursor, Resume
from tables.state.quarantine import Entry, Outcome, Resolution
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.actions import TABLES, RowsOf
from tests.unit.app.worker.pipeline.gather.parked import WAITING, waiting_in
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import (
    NOWHERE,
    RULES,
    assert_markers,
    by_topic,
    first_cursor,
    joined,
    pieces_of,
    records_of,
    rows_by_topic,
    run,
    run_stage,
    spec_of,
)
from tests.unit.connectors.mysql import mariadb_made as mariadb
from wire.records import HEADER_META

ORDERS, LOG, OTHER = TABLES
LIMIT = 20_000
SMALL = made.int_table()
ROWS = 1_000


def committed(pieces: list[Piece]) -> list[Piece]:
    """The published parts; each is about as large as the limit, the last one smaller."""
    found = joined(pieces)
    assert len(found) > 3
    assert all(piece.size < 1.5 * LIMIT for piece in found)
    assert all(piece.size > 0.7 * LIMIT for piece in found[:-1])
    return found


def one_event(*, compressed: bool = False) -> Chunk:
    """A transaction of many rows in a single rows event, as a large binlog_row_event_max_size makes them."""
    events = [made.query("BEGIN"), made.table_map(SMALL), made.int_rows(SMALL, *range(ROWS))]
    if compressed:
        return made.chunk_of(made.gtid(1), made.payload(*events, made.xid()))
    return made.chunk_of(made.gtid(1), *events, made.xid())


def cursor_of(**changes: Any) -> Cursor:
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    first = Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)
    return replace(first, **changes)


def run_limited(chunk: Chunk, cursor: Cursor | None = None) -> list[Piece]:
    return run([chunk], cursor or cursor_of(), rules=replace(RULES, max_bytes=LIMIT))


def change_ids(pieces: list[Piece]) -> list[str]:
    """Of the rows, by ``seq``."""
    rows = [one for one in records_of(pieces) if one.value and "op" in one.value]
    rows.sort(key=lambda one: one.seq)
    return [dict(one.headers)["change_id"].decode() for one in rows]


def values(pieces: list[Piece]) -> list[Any]:
    """Of the rows, by ``seq``."""
    rows = [one.value for one in records_of(pieces) if one.value and "op" in one.value]
    return [one["after"] for one in sorted(rows, key=lambda one: one["source"]["seq"])]


def test_a_transaction_within_one_chunk_comes_in_parts() -> None:
    source = Source([[RowsOf(LOG, "c", ((1, 1),) * 400)]], gtids=True)
    whole = pieces_of(source)
    parts = committed(pieces_of(source, NOWHERE, max_bytes=LIMIT))
    assert rows_by_topic(records_of(parts)) == rows_by_topic(records_of(whole))
    assert_markers(parts)
    assert [piece.resume is None for piece in parts] == [False] * (len(parts) - 1) + [True]
    assert [piece.trace.gtids for piece in parts[:-1]] == [[]] * (len(parts) - 1)
    assert parts[-1].trace.gtids == [(UUID, 1, 1)]


def test_many_transactions_within_one_chunk_come_as_several_pieces_of_whole_ones() -> None:
    source = Source([[RowsOf(LOG, "c", ((1, 1),))] for _ in range(3)], gtids=True)
    first, second, third = pieces_of(source, NOWHERE, max_bytes=300)
    assert [piece.resume for piece in (first, second, third)] == [None] * 3
    ends = [source.ends[0], source.ends[1], source.ends[2]]
    assert [piece.coordinates for piece in (first, second, third)] == ends
    assert [piece.trace.gtids for piece in (first, second, third)] == [
        [(UUID, number, number)] for number in (1, 2, 3)
    ]
    # Each proves its own position.
    landmarks = [
        piece.trace.landmark and piece.trace.landmark.gtid for piece in (first, second, third)
    ]
    assert landmarks == [f"{UUID}:{number}" for number in (1, 2, 3)]


def test_digests_of_a_chunks_transactions_are_in_the_pieces_of_these() -> None:
    source = Source([[RowsOf(LOG, "c", ((1, 1),))] for _ in range(3)], gtids=True)
    cursor = first_cursor(source)
    spec = replace(spec_of(replace(RULES, max_bytes=300), cursor, {}), has_gtids=True)
    pieces = run_stage(source.chunks(source.first, NOWHERE), cursor, spec)
    assert [[one.gtid for one in piece.trace.recent] for piece in pieces] == [
        [f"{UUID}:{number}"] for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("compressed", [False, True])
def test_one_event_of_many_rows_comes_in_parts(compressed: bool) -> None:
    chunk = one_event(compressed=compressed)
    whole = run([chunk], cursor_of())
    parts = committed(run_limited(chunk))
    assert change_ids(parts) == change_ids(whole) == [f"{UUID}:1#{row}" for row in range(ROWS)]
    assert by_topic(records_of(parts))["aq.shop.t"] == by_topic(records_of(whole))["aq.shop.t"]
    assert_markers(parts)
    assert parts[-1].seq == ROWS


@pytest.mark.parametrize("compressed", [False, True])
def test_a_run_continues_within_such_an_event_after_any_part(compressed: bool) -> None:
    chunk = one_event(compressed=compressed)
    cursor, parts = cursor_of(), committed(run_limited(chunk))
    whole = change_ids(parts)
    for done, piece in enumerate(parts[:-1], start=1):
        cursor = replace(_after(cursor, piece), epoch=2)
        assert cursor.resume is not None
        versions = {("shop", "t"): parts[0].tables.versions[0]}
        rules = replace(RULES, max_bytes=LIMIT // 2)
        later = joined(run([chunk], cursor, versions, rules))
        assert change_ids(parts[:done] + later) == whole
        assert_markers(parts[:done] + later)


def compressed_rows() -> Chunk:
    """The same transaction as a MariaDB with log_bin_compress writes it."""
    rows = mariadb.compressed_rows(made.int_rows(SMALL, *range(ROWS)))
    return made.chunk_of(mariadb.gtid(1), made.table_map(SMALL), rows, made.xid())


@pytest.mark.parametrize("chunk", [one_event(), one_event(compressed=True), compressed_rows()])
def test_the_rest_of_such_an_event_waits_if_its_table_is_quarantined_after_any_part(
    chunk: Chunk,
) -> None:
    cursor = cursor_of()
    spec = spec_of(replace(RULES, max_bytes=LIMIT), cursor, {})
    spec = replace(spec, mariadb=chunk == compressed_rows())
    parts = committed(run_stage([chunk], cursor, spec))
    spec = replace(spec, versions={("shop", "t"): parts[0].tables.versions[0]})
    for done, piece in enumerate(parts[:-1], start=1):
        cursor = replace(_after(cursor, piece), epoch=2)
        assert cursor.resume is not None
        quarantined = replace(spec, known={("shop", "t"): Unpublished.QUARANTINED})
        (last,) = joined(run_stage([chunk], cursor, quarantined))
        assert last.counts.parked == {("shop", "t"): 1}
        (record,) = (one for one in records_of([last]) if one.topic == WAITING)
        meta = orjson.loads(dict(record.headers)[HEADER_META])
        assert (meta["ordinal"], meta["rows"]) == (cursor.resume.rows, ROWS - cursor.resume.rows)
        back = released(last, _after(cursor, last), spec)
        assert change_ids([*parts[:done], back]) == change_ids(parts)
        assert values([*parts[:done], back]) == values(parts)


def released(parked: Piece, cursor: Cursor, spec: StageSpec) -> Piece:
    """What a release makes of the events that a piece has parked."""
    since = HistoryPosition.between(cursor.offset, ts_ms=0)
    entry = Entry(destination="shop", name=("shop", "t"), since=since, why="a test")
    resolution = Resolution(
        destination="shop", name=("shop", "t"), id="r1", table=None, by="anna", ts_ms=1
    )
    release = Release(spec, resolution, entry, SchemaHistory())
    found = release.decode(waiting_in(records_of([parked])), cursor)
    assert found.entry.outcome is Outcome.RELEASING
    return found.piece


def test_rows_that_are_rolled_back_after_a_part_of_them_are_refused() -> None:
    """It may be published by then."""
    events = [made.query("BEGIN"), made.table_map(SMALL), made.int_rows(SMALL, *range(ROWS))]
    chunk = made.chunk_of(made.gtid(1), *events, made.query("ROLLBACK"))
    *_, last = run_limited(chunk)
    assert isinstance(last.error, UnsupportedEvent)
    assert not last.whole


def test_a_part_that_was_published_before_is_not_cut_again() -> None:
    resume = Resume(transaction_id=f"{UUID}:1", rows=ROWS - 1, published=ROWS - 1, part=9)
    (last,) = joined(run_limited(one_event(), cursor_of(resume=resume, seq=ROWS - 1)))
    assert change_ids([last]) == [f"{UUID}:1#{ROWS - 1}"]
    assert last.resume is None
