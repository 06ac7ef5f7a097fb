"""Undecodable rows: isolated if possible, with all that is needed to decode them later."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from app.worker.pipeline.encode import dead_letter_fields
from app.worker.pipeline.piece import Piece
from connectors.errors import DeadLetterLimitReached, MalformedEvent
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.state.cursor import Cursor, Resume
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.history import CHARSETS
from tests.unit.app.worker.pipeline.runs import MARKERS, RULES, Record, records_of, run

DEAD = "aq.__dead_letters.shop"
BAD = b"\xff\xfe"
"""Bytes that are no text of utf8mb4."""
NOTES = TableMap(
    table_id=5,
    database="shop",
    table="notes",
    columns=(
        MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name="id", unsigned=False),
        MappedColumn(
            type=FieldType.VARCHAR, metadata=80, nullable=True, name="note", collation=255
        ),
    ),
    primary_key=(0,),
)


def image(key: int, note: bytes) -> bytes:
    return b"\0" + struct.pack("<i", key) + bytes([len(note)]) + note


def pieces(
    *rows: bytes, limit: int = 10, resume: Resume | None = None, max_bytes: int = 10**6
) -> list[Piece]:
    """Of one transaction with these rows events."""
    events = [made.gtid(1), made.query("BEGIN"), made.table_map(NOTES), *rows, made.xid()]
    chunk = made.chunk_of(*events)
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=0,
        versions=0,
        offset=offset,
        resume=resume,
    )
    return run([chunk], cursor, rules=replace(RULES, undecodable_limit=limit, max_bytes=max_bytes))


def event(*notes: bytes, first: int = 1, kind: int = EventType.WRITE_ROWS) -> bytes:
    images = [image(first + at, note) for at, note in enumerate(notes)]
    if kind == EventType.UPDATE_ROWS:
        images = [one for row in images for one in (image(0, b""), row)]
    return made.rows(NOTES, images, kind=kind)


def published(found: list[Piece]) -> list[tuple[str, int, int]]:
    """Change id, ``seq`` and ``total_order`` of each row."""
    return [
        (
            dict(record.headers)["change_id"].decode(),
            record.seq,
            record.value["transaction"]["total_order"],
        )
        for record in records_of(found)
        if record.topic == "aq.shop.notes" and record.value
    ]


def letters(found: list[Piece]) -> list[Record]:
    return [record for record in _raw(found) if record.topic == DEAD]


def _raw(found: list[Piece]) -> list[Record]:
    """Records whose values are bytes are read as those of the quarantine are."""
    renamed = [
        replace_topics(piece, DEAD, "aq.__quarantine.dead") if piece.batches else piece
        for piece in found
    ]
    return [
        replace(record, topic=DEAD) if record.topic == "aq.__quarantine.dead" else record
        for record in records_of(renamed)
    ]


def replace_topics(piece: Piece, old: str, new: str) -> Piece:
    batches = [
        batch._replace(topic=new) if batch.topic == old else batch for batch in piece.batches
    ]
    return replace(piece, batches=batches)


def described(record: Record) -> dict[str, Any]:
    return dead_letter_fields(record.key or b"", record.value, dict(record.headers), 0)


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS, EventType.DELETE_ROWS])
def test_rows_around_one_that_cannot_be_decoded_continue_with_their_ordinals(kind: int) -> None:
    found = pieces(event(b"a", b"b", BAD, b"d", kind=kind), event(b"e", first=5, kind=kind))
    assert found[-1].error is None
    assert published(_only(found, "aq.shop.notes")) == [
        (f"{UUID}:1#{row}", seq, seq) for seq, row in enumerate((0, 1, 3, 4), start=1)
    ]
    (letter,) = letters(found)
    assert described(letter) | {"reason": "", "bytes": "", "table_map": ""} == {
        "offset": 0,
        "database": "shop",
        "table": "notes",
        "change_id": f"{UUID}:1#2",
        "kind": "row",
        "gtid": f"{UUID}:1",
        "file": made.FILE,
        "pos": found[-1].coordinates.pos and described(letter)["pos"],
        "row": 2,
        "ts_ms": described(letter)["ts_ms"],
        "event_type": kind,
        "reason": "",
        "bytes": "",
        "table_map": "",
        "sealed": None,
    }
    assert "utf-8" in described(letter)["reason"]
    assert [one.row for one in found[-1].dead_letters] == [2]


def _only(found: list[Piece], topic: str) -> list[Piece]:
    kept = []
    for piece in found:
        batches = [batch for batch in piece.batches if batch.topic == topic]
        kept.append(
            replace(piece, batches=batches, records=sum(batch.records for batch in batches))
        )
    return kept


def test_a_dead_letter_is_an_event_of_that_row_alone() -> None:
    (letter,) = letters(pieces(event(b"a", BAD + b"tail")))
    table_map = parse_table_map(dict(letter.headers)["table_map"])
    decoder = CompiledDecoder(table_map, CHARSETS)
    with pytest.raises(MalformedEvent):
        decoder.rows(EventType.WRITE_ROWS, letter.value)
    repaired = letter.value.replace(BAD, b"ok")
    assert decoder.rows(EventType.WRITE_ROWS, repaired) == [
        (None, '{"id":2,"note":"oktail"}', None, '{"id":2}', None)
    ]


def test_an_update_is_one_row_whichever_image_is_broken() -> None:
    found = pieces(event(b"a", BAD, b"c", kind=EventType.UPDATE_ROWS))
    # Each changes its key from 0, and so is a delete and a create.
    assert [name for name, _, _ in published(_only(found, "aq.shop.notes"))] == [
        f"{UUID}:1#{row}/{half}" for row in (0, 2) for half in (0, 1)
    ]
    assert found[-1].seq == 4
    assert len(letters(found)) == 1


def test_an_event_that_cannot_be_divided_goes_whole_and_counts_as_one_row() -> None:
    broken = event(b"a", b"b")[:-1] + b"\x7f"
    cut = made.rows(NOTES, [image(1, b"a"), image(2, b"b")[:-4]])
    found = pieces(cut, event(b"c", first=3))
    assert published(_only(found, "aq.shop.notes")) == [(f"{UUID}:1#1", 1, 1)]
    (letter,) = letters(found)
    assert described(letter)["kind"] == "event"
    assert letter.value == cut[made.HEADER.size :]
    assert pieces(broken)[-1].error is None


def test_the_first_one_stops_by_default_and_is_named() -> None:
    (piece,) = pieces(event(b"a", BAD), limit=0)
    assert isinstance(piece.error, MalformedEvent)
    assert piece.error.context["table"] == "shop.notes"
    assert piece.error.context["row_of_event"] == 1
    assert piece.error.context["gtid"] == f"{UUID}:1"
    assert isinstance(piece.error.context["coordinates"], Coordinates)
    assert "dead_letter" in str(piece.error)
    assert records_of([piece]) == []


def test_more_in_a_chunk_than_the_limit_stop_before_their_transaction() -> None:
    assert pieces(event(BAD, b"x", BAD), limit=2)[-1].error is None
    (piece,) = pieces(event(BAD, b"x", BAD), limit=1)
    assert isinstance(piece.error, DeadLetterLimitReached)
    assert piece.error.context["gtid"] == f"{UUID}:1"
    assert records_of([piece]) == []
    assert piece.dead_letters == []


def test_a_run_that_resumes_writes_no_letter_again() -> None:
    resume = Resume(transaction_id=f"{UUID}:1", rows=2, published=1, part=1)
    found = pieces(event(b"a", BAD, b"c", BAD), resume=resume)
    assert [described(letter)["row"] for letter in letters(found)] == [3]
    assert [name for name, _, _ in published(_only(found, "aq.shop.notes"))] == [f"{UUID}:1#2"]


def test_transaction_markers_count_only_published_events() -> None:
    found = pieces(event(b"a", BAD))
    (end,) = [
        record.value
        for record in records_of(_only(found, MARKERS))
        if record.value["status"] == "END"
    ]
    assert end["event_count"] == 1
