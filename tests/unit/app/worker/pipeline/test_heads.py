"""With the head of a file the cursor moves into that file, and never backward."""

from __future__ import annotations

from app.worker.pipeline.publish.publisher import _after
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.state.cursor import Cursor, FileHead
from tests.unit.app.worker.pipeline.runs import run

_BEGUN = 1_795_000_000


def cursor_at(pos: int) -> Cursor:
    position = Coordinates("b.000009", pos)
    offset = SourceOffset(server_uuid="u-1", coordinates=position, gtid_set=GtidSet())
    return Cursor(destination="shop", installation="i", epoch=1, seq=7, versions=0, offset=offset)


def head(file: str, pos: int) -> Chunk:
    return Chunk(start=Coordinates(file, pos), data=b"", checksum=False, created=_BEGUN)


def test_the_cursor_moves_into_a_file_that_is_begun_with_what_shows_it_again() -> None:
    cursor = cursor_at(4)
    (piece,) = run([head("b.000009", 197)], cursor)
    assert not piece.only_moves
    after = _after(cursor, piece)
    assert after.offset.coordinates == Coordinates("b.000009", 197)
    assert after.proof.head == FileHead(file="b.000009", created=_BEGUN)
    assert (after.seq, after.offset.gtid_set) == (cursor.seq, cursor.offset.gtid_set)


def test_a_file_before_the_cursors_place_is_none_that_was_begun_since() -> None:
    cursor = cursor_at(1000)
    (piece,) = run([head("b.000009", 197)], cursor)
    assert piece.only_moves
    after = _after(cursor, piece)
    assert (after.offset.coordinates, after.proof.head) == (cursor.offset.coordinates, None)


def test_of_several_heads_the_last_one_counts() -> None:
    cursor = cursor_at(4)
    first, second = run([head("b.000010", 197), head("b.000011", 126)], cursor)
    first.absorb(second)
    assert first.trace.head == FileHead(file="b.000011", created=_BEGUN)
    assert first.coordinates == Coordinates("b.000011", 126)
