"""The topic of records: rows and a TRUNCATE of one table have that of its route."""

from __future__ import annotations

from dataclasses import replace

from app.pipeline.piece import Piece
from tests.unit.app.pipeline.actions import TABLES, RowsOf, Truncate
from tests.unit.app.pipeline.history import Source
from tests.unit.app.pipeline.runs import Versions, first_cursor, records_of, run, versions_of

TABLE = TABLES[0]
OLDER = "aq.as-it-was-called"


def ops(pieces: list[Piece]) -> list[tuple[str, str]]:
    """Topic and kind of each record of a row."""
    found = [(one.topic, one.op) for one in records_of(pieces) if "__" not in one.topic]
    return [one for one in found if one[1] != "tombstone"]


def history() -> Source:
    rows = RowsOf(TABLE, "c", ((1, 1),))
    return Source([[rows], [Truncate(TABLE)], [rows]], gtids=True)


def pieces_with(known: Versions) -> list[Piece]:
    source = history()
    cursor = first_cursor(source)
    return run(source.chunks(source.first, (False,)), cursor, known)


def test_rows_and_a_truncate_go_to_the_topic_of_the_route_once_it_changed() -> None:
    (version,) = versions_of(pieces_with({}))
    topic = version.topic
    older = replace(version, topic=OLDER, partitions=3)
    found = pieces_with({TABLE: older})
    assert ops(found) == [(topic, "c"), (topic, "t"), (topic, "c")]
    assert {topic} == {name for piece in found for name in piece.partitions}
    (moved,) = versions_of(found)
    assert (moved.version, moved.topic, moved.partitions) == (2, topic, 1)


def test_a_truncate_before_the_first_row_of_a_new_topic_has_no_version() -> None:
    source = Source([[Truncate(TABLE)]], gtids=True)
    older = replace(versions_of(pieces_with({}))[0], topic=OLDER)
    pieces = run(source.chunks(source.first, (False,)), first_cursor(source), {TABLE: older})
    (record,) = [one for one in records_of(pieces) if one.op == "t"]
    assert record.topic != OLDER
    assert record.value["source"]["schema"] is None


def test_a_piece_names_its_topics_and_their_partitions() -> None:
    (piece, *_) = pieces_with({})
    assert piece.topics["aq.shop." + TABLE[1]] == 1
    assert piece.topics.keys() >= {batch.topic for batch in piece.batches}
