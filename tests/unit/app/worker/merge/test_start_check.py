"""A merge begins neither with what was merged, nor without what a removed destination has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import orjson
import pytest

from app.worker.merge import start_check as module
from app.worker.merge.start_check import check_starts, left_unmerged, origin_of
from connectors.errors import (
    AqueductError,
    JournalOutdated,
    KafkaDenied,
    RecordForeign,
    TooFewBrokers,
)
from connectors.kafka.reading import Partition, StoredRecord
from tables.state.merge_cursor import MergeCursor, MergeCursors
from tests.unit.app.worker.merge.test_shares import PLAN
from wire.records import Origin

SHARE = ("aq.__shard.a.trade", 1)


def record(seq: int, *, epoch: int = 1, offset: int = 0, name: str = "a") -> StoredRecord:
    value = {"source": {"name": name, "epoch": epoch, "seq": seq}}
    return StoredRecord(b"{}", orjson.dumps(value), offset)


class Kafka:
    """The newest merged record, and the records of a share."""

    def __init__(self, merged: StoredRecord | None, share: list[StoredRecord]) -> None:
        self.merged, self.share = merged, share

    async def newest(
        self, _options: Any, topics: set[str], **_: Any
    ) -> dict[Partition, StoredRecord]:
        assert topics == {"aq.trade"}
        return {} if self.merged is None else {("aq.trade", 1): self.merged}

    async def firsts(
        self, _options: Any, starts: dict[Partition, int], **_: Any
    ) -> dict[Partition, StoredRecord]:
        assert starts.keys() <= {SHARE}
        found = [one for start in starts.values() for one in self.share if one.offset >= start]
        return {SHARE: found[0]} if found else {}


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(merged: StoredRecord | None, share: list[StoredRecord], start: int) -> None:
        kafka = Kafka(merged, share)
        monkeypatch.setattr(module, "newest", kafka.newest)
        monkeypatch.setattr(module, "firsts", kafka.firsts)
        asyncio.run(check_starts(PLAN, {SHARE: start}))

    return run


STORED = [record(seq, offset=at) for at, seq in enumerate((4, 7, 9))]


def test_a_cursor_after_the_newest_merged_record_is_a_beginning(begin: Any) -> None:
    begin(record(7), STORED, 2)
    begin(record(9), STORED, 3)
    begin(None, STORED, 0)
    # Changes that were published again have a later epoch.
    begin(record(99), [record(5, epoch=2, offset=3)], 3)
    # Of a shard that is not begun now.
    begin(record(99, name="b"), STORED, 0)


@pytest.mark.parametrize("start", [0, 1])
def test_an_older_cursor_is_an_error(begin: Any, start: int) -> None:
    with pytest.raises(JournalOutdated, match=rf"at seq {(4, 7)[start]} of a, and aq.trade has 7"):
        begin(record(7), STORED, start)


FOREIGN = [b"{", b"[]", b"{}", b'{"source":{"name":"a","epoch":"x","seq":1}}', b'{"source":7}']


@pytest.mark.remedy("RecordForeign")
@pytest.mark.parametrize("value", FOREIGN)
def test_a_record_that_another_program_wrote_is_named(begin: Any, value: bytes) -> None:
    with pytest.raises(RecordForeign, match=r"topic=aq.trade, partition=1, offset=5"):
        begin(StoredRecord(b"k", value, 5), STORED, 0)
    with pytest.raises(RecordForeign, match=r"topic=aq.__shard.a.trade, partition=1, offset=6"):
        begin(record(7), [StoredRecord(b"k", value, 6)], 0)
    # A new merged topic is empty, and a copy of the other lacks that record.
    begin(None, STORED, 0)


def test_other_formats_have_their_origin_in_headers() -> None:
    headers = [("destination", b"a"), ("epoch", b"2"), ("seq", b"41")]
    assert origin_of(b"[]", headers) == Origin("a", 2, 41)
    assert origin_of(record(4).value, ()) == Origin("a", 1, 4)


class Left:
    """Topics of destinations that the settings have no more, and how far each was merged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.last = {("aq.__shard.gone.trade", 0): 4, ("aq.__shard.gone.new", 0): 2}
        self.faults: dict[str, AqueductError] = {}
        self.offline: set[str] = set()
        self.cursors = MergeCursors()
        self.merged("aq.__shard.gone.trade", 5)
        self.merged("aq.__shard.a.trade", 1)
        monkeypatch.setattr(module, "newest", self.newest)
        monkeypatch.setattr("app.worker.merge.start_check.Topics.counts", self.counts)
        monkeypatch.setattr("app.worker.merge.start_check.Topics.unwritable", self.unwritable)

    def merged(self, topic: str, offset: int) -> None:
        """Write a cursor: the next offset of the topic's only partition."""
        self.cursors.by_topic[topic] = MergeCursor(
            merge=PLAN.unit, topic=topic, offsets={"0": offset}, ts_ms=1
        )

    async def counts(self) -> dict[str, int]:
        return {topic: 1 for topic, _ in self.last} | {"aq.__shard.a.trade": 1, "aq.trade": 1}

    async def unwritable(self, names: Collection[str]) -> dict[str, AqueductError]:
        return {one: TooFewBrokers("no leader", topic=one) for one in self.offline & {*names}}

    async def newest(
        self, _options: Any, topics: Iterable[str], *,
        away: Callable[[list[str]], Awaitable[Collection[str]]], **_: Any,
    ) -> dict[Partition, StoredRecord]:  # fmt: skip
        asked = {*topics}
        assert not any(one.startswith("aq.__shard.a.") for one in asked)
        asked -= {*await away(sorted(self.offline & asked))}
        for topic in asked & self.faults.keys():
            raise self.faults[topic]
        return {
            one: StoredRecord(b"k", b"v", at) for one, at in self.last.items() if one[0] in asked
        }

    async def check(self) -> dict[str, str]:
        return await left_unmerged(PLAN, self.cursors)


async def test_what_a_removed_destination_left_unmerged_is_named_by_its_merged_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Left(monkeypatch)
    # Nothing of this topic was merged; of the other one everything.
    found = await left.check()
    assert found.keys() == {"aq.new"}
    assert found["aq.new"].startswith("MergeUnfinished: ")
    assert "aq.__shard.gone.new has records that aq.new lacks [destination=gone" in found["aq.new"]
    left.merged("aq.__shard.gone.trade", 4)
    left.merged("aq.__shard.gone.new", 3)
    found = await left.check()
    assert found.keys() == {"aq.trade"}
    left.merged("aq.__shard.gone.trade", 5)
    assert await left.check() == {}


async def test_a_destination_of_another_merge_or_that_left_the_merge_alone_is_no_removed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Left(monkeypatch)
    left.cursors = MergeCursors()
    left.last = {("aq.__shard.elsewhere.trade", 0): 4, ("aq.__shard.foreign.trade", 0): 4}
    assert await left.check() == {}
    left.merged("aq.__shard.elsewhere.trade", 1)
    # It reports that itself, before it publishes to the topic directly.
    assert await left.check() == {}


async def test_a_topic_of_a_removed_destination_that_cannot_be_read_holds_up_its_merged_topic_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Left(monkeypatch)
    left.merged("aq.__shard.gone.new", 3)
    left.offline = {"aq.__shard.gone.new"}
    left.faults = {"aq.__shard.gone.trade": KafkaDenied("no", topic="aq.__shard.gone.trade")}
    found = await left.check()
    assert {name: why.partition(":")[0] for name, why in found.items()} == {
        "aq.new": "TooFewBrokers",
        "aq.trade": "KafkaDenied",
    }
    left.faults = {"aq.__shard.gone.trade": KafkaDenied("the account may not connect")}
    with pytest.raises(KafkaDenied):
        await left.check()
