"""Which records of a topic are a destination's own, and whether a merge that it has left published them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.takeover import published_check as module
from app.worker.destination.takeover.published_check import Published
from connectors.errors import MergeUnfinished
from connectors.kafka.reading import Partition, StoredRecord
from connectors.kafka.topics import Topics
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
    """The newest record of each partition of the shares' topics, and the cursors of merges in the journal."""

    def __init__(self, **merged: dict[str, int]) -> None:
        self.last = {(SHARE, 0): 4, (SHARE, 1): 8}
        self.merged = {(merge, SHARE): offsets for merge, offsets in merged.items()}
        """The offsets of each merge and topic, by partition."""
        self.has_read_journal = False

    async def counts(self) -> dict[str, int]:
        return dict.fromkeys((topic for topic, _ in self.last), 2)

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
        self.has_read_journal = True
        for at, ((merge, topic), offsets) in enumerate(self.merged.items()):
            cursor = MergeCursor(merge=f"merge.{merge}", topic=topic, offsets=offsets, ts_ms=1)
            if at % 2 == number:
                take(StoredRecord(*merge_note(cursor), 7))


def left(*topics: str) -> DestinationState:
    """The state of a destination that has published to these topics."""
    state = DestinationState("shop")
    for at, topic in enumerate(topics, 1):
        one = replace(version(at), topic=topic)
        state.apply(StoredRecord(version_key(one), encoded(one.to_json()), at))
    return state


async def checked(
    monkeypatch: pytest.MonkeyPatch,
    kafka: Kafka,
    state: DestinationState,
    *,
    merges: Collection[str] = (),
) -> None:
    monkeypatch.setattr(module, "newest", kafka.newest)
    monkeypatch.setattr(module, "read_each", kafka.read_each)
    monkeypatch.setattr(Topics, "counts", lambda _: kafka.counts())
    await OWN.check_merged(state, 2, destinations={"shop", "crm"}, merges=merges)


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
    kafka.merged = {("other", SHARE): {"0": 5, "1": 9}}
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


GONE, ITS_OWN = "aq.__shard.gone.orders", "aq.__shard.gone.items"


def after(**unread: int) -> Kafka:
    """A merge of which both destinations have left nothing, but for these records of the removed one."""
    kafka = Kafka(trade={"0": 5, "1": 9})
    for topic, end in ((GONE, 3), (ITS_OWN, 7)):
        kafka.last[topic, 0] = end
        own = unread.get(topic.rpartition(".")[2], 0)
        kafka.merged["trade", topic] = {"0": end + 1 - own}
    return kafka


@pytest.mark.parametrize(("name", "topic"), [("orders", GONE), ("items", ITS_OWN)])
async def test_a_destination_names_what_a_removed_one_of_its_ended_merge_left(
    monkeypatch: pytest.MonkeyPatch, name: str, topic: str
) -> None:
    """Also in a topic to which the destination itself has published nothing."""
    kafka = after(**{name: 1})
    lacks = rf"{topic} has records that aq\.{name} lacks, and the settings have no destination gone"
    with pytest.raises(MergeUnfinished, match=lacks) as found:
        await checked(monkeypatch, kafka, left(SHARE))
    assert found.value.context["topic"] == topic
    # Its own records are first.
    kafka.merged["trade", SHARE] = {"0": 1}
    with pytest.raises(MergeUnfinished, match=SHARE):
        await checked(monkeypatch, kafka, left(SHARE))
    # They are given up by the removal of their topics.
    kafka.merged["trade", SHARE] = {"0": 5, "1": 9}
    del kafka.last[topic, 0]
    await checked(monkeypatch, kafka, left(SHARE))
    await checked(monkeypatch, after(), left(SHARE))


async def test_records_are_named_that_no_merge_has_begun_to_read_if_the_topic_would_lack_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(trade={"0": 5, "1": 9})
    kafka.last["aq.__shard.new.orders", 1] = 0
    with pytest.raises(MergeUnfinished, match=r"aq\.__shard\.new\.orders has records"):
        await checked(monkeypatch, kafka, left(SHARE))


async def test_records_of_a_destination_that_reports_them_or_of_another_merge_hold_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = after()
    # It is in the settings; was in another merge; or was in one that still is in the settings.
    kafka.last |= {("aq.__shard.crm.orders", 0): 4, ("aq.__shard.away.other", 0): 4}
    kafka.merged["elsewhere", "aq.__shard.away.other"] = {"0": 1}
    await checked(monkeypatch, kafka, left(SHARE))
    await checked(monkeypatch, after(orders=1), left(SHARE), merges={"merge.trade"})
    # One that was never merged reads no journal for it.
    kafka = after(orders=1)
    await checked(monkeypatch, kafka, left("aq.orders"))
    assert not kafka.has_read_journal
