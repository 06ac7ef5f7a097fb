"""Where records go: rows and a TRUNCATE of one table to one topic, whatever its name would be made of today."""

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


def test_a_truncate_goes_where_the_rows_of_its_table_go() -> None:
    assert len({topic for topic, _ in ops(pieces_with({}))}) == 1
    (version,) = versions_of(pieces_with({}))
    older = replace(version, topic=OLDER, partitions=3)
    found = pieces_with({TABLE: older})
    assert ops(found) == [(OLDER, "c"), (OLDER, "t"), (OLDER, "c")]
    assert {OLDER} == {topic for piece in found for topic in piece.partitions}
    assert all(set(piece.partitions.values()) <= {3} for piece in found)


def test_a_piece_names_its_topics_and_their_partitions() -> None:
    (piece, *_) = pieces_with({})
    assert piece.topics["aq.shop." + TABLE[1]] == 1
    assert piece.topics.keys() >= {batch.topic for batch in piece.batches}
