"""Text with characters that Unicode lacks: published and marked, unless it is part of a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.piece import Piece
from connectors.errors import RowUnreadable
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import SourceOffset
from tables.state.cursor import Cursor
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.gather.test_undecodable_rows import NOTES, image
from tests.unit.app.worker.pipeline.runs import RULES, records_of, run_stage, spec_of

CHARSETS = Charsets({255: "utf8mb4", 18: "tis620"}, {"utf8mb4": 4, "tis620": 1})
ID, NOTE = NOTES.columns
THAI = replace(NOTES, columns=(ID, replace(NOTE, metadata=20, collation=18)))
LACKING = b"a\xdb"


def pieces(table: TableMap, *rows: bytes, limit: int = 0) -> list[Piece]:
    events = [made.gtid(1), made.query("BEGIN"), made.table_map(table), *rows, made.xid()]
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    cursor = Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)
    rules = replace(RULES, undecodable_limit=limit)
    spec = replace(spec_of(rules, cursor, {}), charsets=CHARSETS)
    return run_stage([made.chunk_of(*events)], cursor, spec)


def written(table: TableMap, *notes: bytes) -> bytes:
    return made.rows(
        table, [image(n, note) for n, note in enumerate(notes)], kind=EventType.WRITE_ROWS
    )


def test_a_row_is_published_as_the_server_returns_it_and_only_its_record_is_marked() -> None:
    (piece,) = pieces(THAI, written(THAI, b"x", LACKING, b"y"))
    values = [one.value for one in records_of([piece]) if one.topic == "aq.shop.notes"]
    assert [value["after"]["note"] for value in values] == ["x", "a\ufffd", "y"]
    assert [value.get("replaced") for value in values] == [None, ["note"], None]
    assert [value["source"]["seq"] for value in values] == [1, 2, 3]


def test_an_update_is_marked_whichever_image_lacks_a_character() -> None:
    images = [image(1, LACKING), image(1, b"b"), image(2, b"c"), image(2, b"d")]
    (piece,) = pieces(THAI, made.rows(THAI, images, kind=EventType.UPDATE_ROWS))
    values = [one.value for one in records_of([piece]) if one.topic == "aq.shop.notes"]
    assert [value.get("replaced") for value in values] == [["note"], None]


def test_in_a_key_the_table_waits_or_such_rows_alone_become_dead_letters() -> None:
    keyed = replace(THAI, primary_key=(1,))
    rows = written(keyed, b"x", LACKING, b"y")
    (piece,) = pieces(keyed, rows)
    assert isinstance(piece.error, RowUnreadable)
    assert piece.error.name_of_table == ("shop", "notes")
    assert records_of([piece]) == []
    (piece,) = pieces(keyed, rows, limit=5)
    assert piece.error is None
    assert [letter.row for letter in piece.dead_letters] == [1]


@pytest.mark.parametrize("limit", [1, 5])
def test_more_such_rows_than_the_limit_stop(limit: int) -> None:
    keyed = replace(THAI, primary_key=(1,))
    (piece,) = pieces(keyed, written(keyed, LACKING, b"x", LACKING), limit=limit)
    assert (piece.error is None) is (limit == 5)
