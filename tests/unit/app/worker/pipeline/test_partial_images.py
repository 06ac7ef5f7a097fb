"""Rows whose images lack columns: each record names those that it does not show."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from connectors.mysql.binlog.events import EventType
from connectors.mysql.position import SourceOffset
from tables.state.cursor import Cursor
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.gather.test_undecodable_rows import NOTES
from tests.unit.app.worker.pipeline.runs import records_of, run

ID, NOTE = NOTES.columns
TABLE = replace(NOTES, columns=(ID, NOTE, replace(NOTE, name="more")))


def updated(before: dict[int, object], after: dict[int, object]) -> bytes:
    """An update whose images have these columns, by number: `id` is 0."""
    body = TABLE.table_id.to_bytes(6, "little") + struct.pack("<HH", 1, 2) + b"\x03"
    images = (before, after)
    body += bytes(sum(1 << number for number in image) for image in images)
    return made.event(EventType.UPDATE_ROWS, body + b"".join(map(_image, images)))


def _image(values: dict[int, object]) -> bytes:
    return b"\0" + b"".join(
        struct.pack("<i", value) if isinstance(value, int) else made_text(str(value))
        for value in values.values()
    )


def made_text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def values_of(*rows: bytes) -> list[dict[str, Any]]:
    events = [made.gtid(1), made.query("BEGIN"), made.table_map(TABLE), *rows, made.xid()]
    offset = SourceOffset(server_uuid=UUID, coordinates=made.START)
    cursor = Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)
    found = records_of(run([made.chunk_of(*events)], cursor))
    return [one.value for one in found if one.topic == "aq.shop.notes" and one.value]


def shown(value: dict[str, Any]) -> tuple[Any, Any, Any]:
    return value["before"], value["after"], value.get("absent")


def test_an_update_names_what_neither_of_its_images_holds() -> None:
    (value,) = values_of(updated({0: 1}, {1: "x"}))
    assert shown(value) == ({"id": 1}, {"id": 1, "note": "x"}, ["more"])


def test_of_a_key_that_changed_each_record_names_what_its_own_image_lacks() -> None:
    gone, come = values_of(updated({0: 1}, {0: 2, 1: "x"}))
    assert shown(gone) == ({"id": 1}, None, ["note", "more"])
    assert shown(come) == (None, {"id": 2, "note": "x"}, ["more"])
    gone, come = values_of(updated({0: 1}, {0: 2, 1: "x", 2: "y"}))
    assert shown(gone) == ({"id": 1}, None, ["note", "more"])
    assert shown(come) == (None, {"id": 2, "note": "x", "more": "y"}, None)
    assert [value["source"]["seq"] for value in (gone, come)] == [1, 2]
