"""The journal shows up to where a destination is published, and whether definitions may have changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from app.operator.validation import looks
from app.operator.validation.errors import PublishingStalled, SourceMoved
from app.operator.validation.looks import PublishedPosition
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tables.journal_format import TOMBSTONE, encoded
from tables.state.cursor import Cursor, Resume, cursor_key
from tables.state.journal.state import JournalPartition
from tests.unit.app.operator.journals import cursor

GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7")
PARTITION = ("aq.__journal", 2)


class Journal:
    """The twin of a Follower, whose partition has one more record at each look."""

    def __init__(self, *values: tuple[bytes, bytes]) -> None:
        self._records = [StoredRecord(*one, at) for at, one in enumerate(values)]
        self._read, self.visible = 0, 0

    async def ends(self, _partitions: Any) -> dict[tuple[str, int], int]:
        return {PARTITION: self.visible}

    async def position(self, _partition: Any) -> int:
        return self._read

    async def read(self, _seconds: float, *, most: int, only: Any) -> dict[Any, list[Any]]:  # noqa: ARG002
        found = self._records[self._read : self._read + 1]
        self._read += len(found)
        return {PARTITION: found}

    async def unread(self) -> dict[Any, int]:
        return {}


def at(pos: int, **more: Any) -> Cursor:
    return replace(cursor(GTIDS, pos=pos), **more)


def note(one: Cursor, destination: str = "shop") -> tuple[bytes, bytes]:
    return cursor_key(destination), encoded(replace(one, destination=destination).to_json())


def made(*values: tuple[bytes, bytes], server: str = "uuid-a") -> tuple[PublishedPosition, Journal]:
    journal = Journal(*values)
    partition = JournalPartition(destination="shop", topic=PARTITION[0], number=2, options={})
    found = PublishedPosition(
        cast(Any, journal), partition, cursor(GTIDS, pos=4, server=server), server_uuid=server
    )
    return found, journal


async def test_a_position_is_reached_with_the_first_cursor_at_or_after_it() -> None:
    published, _ = made(note(at(100)), note(at(900), "other"), note(at(300)), note(at(500)))
    await published.reached(Coordinates("binlog.000002", 200))
    assert published.cursor.offset.coordinates.pos == 300
    await published.reached(Coordinates("binlog.000002", 300))
    assert published.cursor.offset.coordinates.pos == 300


async def test_it_settles_on_the_last_cursor_that_can_be_read_now() -> None:
    published, journal = made(note(at(100)), note(at(200)), note(at(300)))
    journal.visible = 2
    assert await published.settled() == GTIDS
    assert published.cursor.offset.coordinates.pos == 200


async def test_it_does_not_settle_within_a_transaction() -> None:
    resume = Resume(transaction_id="x", rows=5, published=5, part=1)
    published, journal = made(
        note(at(100, resume=resume)), note(at(100, resume=replace(resume, part=2))), note(at(200))
    )
    journal.visible = 1
    await published.settled()
    found = published.cursor
    assert (found.offset.coordinates.pos, found.resume) == (200, None)


@pytest.mark.remedy("PublishingStalled")
async def test_a_cursor_that_does_not_move_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "STALLED_SECONDS", 0.0)
    published, _ = made()
    with pytest.raises(PublishingStalled, match=r"not up to binlog\.000002:5"):
        await published.reached(Coordinates("binlog.000002", 5))
    # Begun again once the worker runs.
    monkeypatch.undo()
    published, _ = made(note(at(900)))
    await published.reached(Coordinates("binlog.000002", 5))


@pytest.mark.remedy("SourceMoved")
async def test_a_cursor_of_another_server_is_an_error() -> None:
    moved = cursor(GTIDS, pos=900, server="uuid-b")
    published, _ = made(note(moved))
    with pytest.raises(SourceMoved, match="uuid-b"):
        await published.reached(Coordinates("binlog.000002", 5))
    with pytest.raises(SourceMoved):
        await published.settled()
    # Begun again with the server that is read now.
    published, _ = made(note(moved), server="uuid-b")
    await published.settled()


async def test_without_gtids_a_select_has_to_see_all_before_a_position() -> None:
    published, journal = made(note(cursor(None, pos=7)))
    journal.visible = 1
    assert await published.settled() == Coordinates("binlog.000002", 7)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (b"quarantine/shop/shop/t", 1),
        (b"mapping/shop/3", 1),
        (b"resolved/shop/3", 1),
        (b"quarantine/other/shop/t", 0),
        (b"leader/shop", 0),
        (b"schema/shop/shop/t", 1),
        (b"schema/other/shop/t", 0),
    ],
)
async def test_records_after_which_a_table_may_be_published_differently(
    key: bytes, changes: int
) -> None:
    published, journal = made((key, encoded({})), note(at(100)))
    journal.visible = 2
    await published.settled()
    assert published.changes == changes


async def test_a_statement_shows_in_the_cursor() -> None:
    published, journal = made(
        note(at(100, history=3)), (cursor_key("shop"), TOMBSTONE), note(at(200, history=3))
    )
    journal.visible = 3
    await published.settled()
    assert published.changes == 1
