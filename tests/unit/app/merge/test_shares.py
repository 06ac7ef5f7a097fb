"""The shares of a merge: times of records, topics that appear, and partitions that are complete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app.merge import shares as module
from app.merge.plan import MergePlan
from app.merge.shares import Shares, committed_ms
from app.pipeline.publish.publisher import TopicPlans
from connectors.errors import RecordsGone
from connectors.kafka.reading.follower import Follower, Partition
from tables.merge_cursor import MergeCursor, MergeCursors

TOPICS = TopicPlans(
    prefix="aq",
    replication_factor=1,
    cleanup_policy="delete",
    retention_ms=-1,
    max_message_bytes=1 << 20,
    journal_partitions=1,
)
PLAN = MergePlan(
    name="trade",
    destinations=("a", "b"),
    prefix="aq",
    wait=1.0,
    passes=True,
    stalled_after=10.0,
    accepts_gone=False,
    topics=TOPICS,
    kafka_options={},
    compression=None,
)


class FakeFollower:
    """Partitions in memory: offsets below ``visible`` can be read, those below ``ends`` are written."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.firsts: dict[Partition, int] = {}
        self.ends_of: dict[Partition, int] = {}
        self.positions: dict[Partition, int] = {}
        self.waiting: dict[Partition, list[Any]] = {}
        self.paused: list[Partition] = []

    async def partitions(self, prefixes: list[str]) -> dict[str, int]:
        return {one: n for one, n in self.counts.items() if one.startswith(tuple(prefixes))}

    async def follow(self, starts: dict[Partition, int]) -> None:
        self.positions |= starts

    async def read(self, _seconds: float) -> dict[Partition, list[Any]]:
        found, self.waiting = self.waiting, {}
        for one, records in found.items():
            self.positions[one] = records[-1].offset + 1
        return found

    async def position(self, one: Partition) -> int:
        return self.positions[one]

    async def beginnings(self, wanted: Any) -> dict[Partition, int]:
        return {one: self.firsts.get(one, 0) for one in wanted}

    async def ends(self, wanted: Any) -> dict[Partition, int]:
        return {one: self.ends_of.get(one, 0) for one in wanted}

    def pause(self, wanted: list[Partition]) -> None:
        self.paused = list(wanted)


def record(offset: int, value: dict[str, Any] | None) -> Any:
    raw = None if value is None else orjson.dumps(value)
    return SimpleNamespace(offset=offset, key=b"{}", value=raw, headers=())


def row(time_ms: int) -> dict[str, Any]:
    return {"before": None, "source": {"ts_ms": time_ms, "snapshot": "false"}, "ts_ms": 1}


def made(fake: FakeFollower, cursors: MergeCursors | None = None, plan: MergePlan = PLAN) -> Shares:
    return Shares(plan, cast(Follower, fake), cursors or MergeCursors(), unchecked)


async def unchecked(_starts: object) -> None:
    """``start_check`` has tests of its own."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_CONFIRM_SECONDS", 0.0)


def test_the_time_of_a_record_is_that_of_its_commit_whatever_its_columns_and_texts_are() -> None:
    tricky = {"snapshot": '","snapshot":"', "ts_ms": 5, "x": '"ts_ms":9,"snapshot":"no"'}
    source = {"ts_ms": 1795234567123, "snapshot": "false", "query": '"ts_ms":7,"snapshot":"false"'}
    value = {"before": tricky, "after": tricky, "source": source, "op": "u", "ts_ms": 8}
    assert committed_ms(orjson.dumps(value), []) == 1795234567123
    assert committed_ms(None, []) is None
    assert committed_ms(b'{"type":"INSERT"}', [("ts_ms", b"42")]) == 42
    # Columns of a record in another format may have the names of the envelope's members.
    row = b'{"data":{"ts_ms":7,"snapshot":"x","ts_ms":9}}'
    assert committed_ms(row, [("change_id", b"u:1#0"), ("ts_ms", b"42")]) == 42


def test_topics_are_found_with_their_merged_ones_and_begin_where_the_cursor_is() -> None:
    async def steps() -> None:
        fake, cursors = FakeFollower(), MergeCursors()
        cursors.by_topic["aq.__shard.a.trade"] = MergeCursor(
            merge="merge.trade", topic="aq.__shard.a.trade", offsets={"1": 7}, ts_ms=1
        )
        shares = made(fake, cursors)
        assert await shares.look() == {}
        fake.counts = {"aq.__shard.a.trade": 2, "aq.__shard.c.trade": 2, "aq.trade": 2}
        assert await shares.look() == {"aq.trade": 2}
        assert fake.positions == {("aq.__shard.a.trade", 0): 0, ("aq.__shard.a.trade", 1): 7}
        fake.counts["aq.__shard.b.trade"] = 3
        assert await shares.look() == {"aq.trade": 3}
        assert await shares.look() == {}
        assert set(shares.orders) == {("aq.trade", n) for n in range(3)}

    asyncio.run(steps())


def test_records_that_were_deleted_before_they_were_merged_are_an_error_that_can_be_accepted() -> (
    None
):
    async def steps(plan: MergePlan) -> dict[Partition, int]:
        fake = FakeFollower()
        fake.counts, fake.firsts = {"aq.__shard.a.trade": 1}, {("aq.__shard.a.trade", 0): 4}
        await made(fake, plan=plan).look()
        return fake.positions

    with pytest.raises(
        RecordsGone, match=r"4 offsets .* topic=aq.__shard.a.trade, partition=0, offset=0, first=4"
    ):
        asyncio.run(steps(PLAN))
    assert asyncio.run(steps(replace(PLAN, accepts_gone=True))) == {("aq.__shard.a.trade", 0): 4}


def test_a_partition_is_complete_once_all_is_read_that_was_written_when_its_shard_was() -> None:
    async def steps() -> None:
        fake = FakeFollower()
        a, b, progress = (
            ("aq.__shard.a.trade", 0),
            ("aq.__shard.b.trade", 0),
            ("aq.__progress.b", 0),
        )
        fake.counts = {a[0]: 1, b[0]: 1, progress[0]: 1}
        shares = made(fake)
        await shares.look()
        order = shares.orders["aq.trade", 0]
        fake.waiting = {a: [record(0, row(100))], progress: [record(0, {"complete_ms": 150})]}
        fake.ends_of = {b: 2}
        await shares.read(0)
        for _ in range(3):
            await shares.confirm()
            # What b has published before is not visible yet: it may be earlier.
            assert order.take(0.0) == []
        fake.waiting = {b: [record(0, row(90))]}
        await shares.read(0)
        assert [held.time_ms for _, held in order.take(0.0)] == [90]
        await shares.confirm()
        assert order.take(0.0) == []
        fake.positions[b] = 2
        await shares.confirm()
        assert [held.time_ms for _, held in order.take(0.0)] == [100]

    asyncio.run(steps())


def test_a_shard_without_the_topic_is_complete_as_soon_as_it_says_so() -> None:
    async def steps() -> None:
        fake = FakeFollower()
        a, progress = ("aq.__shard.a.trade", 0), ("aq.__progress.b", 0)
        fake.counts = {a[0]: 1, progress[0]: 1}
        shares = made(fake)
        await shares.look()
        fake.waiting = {a: [record(0, row(100))]}
        await shares.read(0)
        shares.complete_absent()
        assert shares.orders["aq.trade", 0].take(0.0) == []
        fake.waiting = {progress: [record(0, {"complete_ms": 100})]}
        await shares.read(0)
        shares.complete_absent()
        # The topic may have been made since the last look, and contain what is complete.
        assert shares.orders["aq.trade", 0].take(0.0) == []
        await shares.look()
        shares.complete_absent()
        assert len(shares.orders["aq.trade", 0].take(0.0)) == 1

    asyncio.run(steps())


def test_a_partition_that_holds_much_is_not_fetched_until_it_was_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_HELD_BYTES", 10)
    monkeypatch.setattr(module, "_LEAST_HELD", 10)

    async def steps() -> None:
        fake = FakeFollower()
        a = ("aq.__shard.a.trade", 0)
        fake.counts = {a[0]: 1}
        shares = made(fake)
        await shares.look()
        fake.waiting = {a: [record(0, row(100))]}
        await shares.read(0)
        assert fake.paused == [a]
        shares.by_partition[a].lane.pop()
        await shares.read(0)
        assert fake.paused == []

    asyncio.run(steps())
