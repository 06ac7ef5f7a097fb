"""Which records of a topic are a destination's own, and whether a merge that it has left published them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.takeover import published_check as module
from app.worker.destination.takeover.published_check import Published
from connectors.errors import MergeUnfinished
from connectors.kafka.reading import Partition, StoredRecord
from tables.journal_format import encoded
from tables.state.journal.records import version_key
from tables.state.journal.state import DestinationState
from tables.state.merge_cursor import MergeCursor
from tables.state.merge_cursor import note_of as merge_note
from tests.unit.tables.state.journal.made import version

SHARE = "aq.__shard.shop.orders"
OWN = Published(destination="shop", prefix="aq", options={})


@pytest.mark.parametrize(
    "value",
    [
        b"test", b"\x00\x00\x00\x00\x05x", b"[1]", b"5", b"", b"{}",
        b'{"op":"c","source":{"name":"shop","db":"d"}}',
        b'{"op":"c","source":{"name":"shop","epoch":"1","seq":"2"}}',
        b'{"op":"c","source":{"name":"other","epoch":1,"seq":2}}',
    ],
)  # fmt: skip
def test_a_record_of_another_program_or_destination_is_not_its_own(value: bytes) -> None:
    assert not OWN._has_row(StoredRecord(b"k", value, 7))


def test_a_record_in_any_format_is_its_own() -> None:
    envelope = b'{"op":"c","source":{"name":"shop","epoch":1,"seq":2}}'
    assert OWN._has_row(StoredRecord(b"k", envelope, 7))
    headers = (("format", b"canal"), ("destination", b"shop"), ("seq", b"2"), ("epoch", b"1"))
    assert OWN._has_row(StoredRecord(b"k", b"{}", 7, (*headers, ("change_id", b"u:1#0"))))


@pytest.mark.parametrize("key", [b"", b"k", b"5", b"[]", b"{}", b'{"destination":"other"}'])
def test_a_version_of_another_program_or_destination_is_not_its_own(key: bytes) -> None:
    value = orjson.dumps(version(3).to_json())
    assert OWN._version(StoredRecord(key, value, 7)) is None


@pytest.mark.parametrize("value", [b"", b"x", b"{}", b"[1]", b"5"])
def test_a_record_with_its_key_that_has_no_version_is_not_its_own(value: bytes) -> None:
    assert OWN._version(StoredRecord(b'{"destination":"shop"}', value, 7)) is None


def test_a_version_of_its_own_is_known_by_its_key() -> None:
    one = version(3)
    record = StoredRecord(b'{"destination":"shop"}', orjson.dumps(one.to_json()), 7)
    assert OWN._version(record) == one


class Kafka:
    """The newest record of each partition of the share's topic, and the cursors of merges in the journal."""

    def __init__(self, **merged: dict[str, int]) -> None:
        self.last = {(SHARE, 0): 4, (SHARE, 1): 8}
        self.merged = merged
        """The offsets of each merge, by partition."""

    async def newest(
        self, _options: Any, topics: Iterable[str], **_: Any
    ) -> dict[Partition, StoredRecord]:
        return {
            one: StoredRecord(b"k", b"v", offset)
            for one, offset in self.last.items()
            if one[0] in topics
        }

    async def read_each(
        self, _options: Any, _topic: str, number: int, *, take: Callable[[StoredRecord], object], **_: Any
    ) -> None:  # fmt: skip
        for at, (merge, offsets) in enumerate(self.merged.items()):
            cursor = MergeCursor(merge=f"merge.{merge}", topic=SHARE, offsets=offsets, ts_ms=1)
            if at == number:
                take(StoredRecord(*merge_note(cursor), 7))


def left(*topics: str) -> DestinationState:
    """The state of a destination that has published to these topics."""
    state = DestinationState("shop")
    for at, topic in enumerate(topics, 1):
        one = replace(version(at), topic=topic)
        state.apply(StoredRecord(version_key(one), encoded(one.to_json()), at))
    return state


async def checked(monkeypatch: pytest.MonkeyPatch, kafka: Kafka, state: DestinationState) -> None:
    monkeypatch.setattr(module, "newest", kafka.newest)
    monkeypatch.setattr(module, "read_each", kafka.read_each)
    await OWN.check_merged(state, 2)


async def test_a_destination_waits_for_a_merge_that_it_has_left_with_records_not_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(other={}, trade={"0": 5, "1": 8})
    with pytest.raises(
        MergeUnfinished, match=rf"{SHARE} has records that aq\.orders lacks"
    ) as found:
        await checked(monkeypatch, kafka, left(SHARE, "aq.shop.x"))
    assert found.value.context == {
        "destination": "shop", "topic": SHARE, "partition": 1, "offset": 8,
    }  # fmt: skip
    # The next offset to merge is after the last record, whichever partition of the journal says so.
    kafka.merged = {"other": {"0": 5, "1": 9}}
    await checked(monkeypatch, kafka, left(SHARE, "aq.shop.x"))


async def test_records_that_no_merge_has_begun_to_read_are_not_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MergeUnfinished):
        await checked(monkeypatch, Kafka(), left(SHARE))


async def test_a_destination_that_was_never_merged_or_whose_shares_are_deleted_is_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await checked(monkeypatch, Kafka(), left("aq.orders"))
    gone = Kafka()
    gone.last = {}
    await checked(monkeypatch, gone, left(SHARE))
