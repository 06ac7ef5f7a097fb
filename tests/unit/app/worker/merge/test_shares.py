"""The shares of a merge: times of records, topics that appear, and partitions that are complete."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app.worker.merge import shares as module
from app.worker.merge.plan import MergePlan
from app.worker.merge.shares import Shares, committed_ms
from app.worker.pipeline.publish.publisher import TopicPlans
from connectors.errors import (
    AqueductError,
    KafkaDenied,
    RecordForeign,
    TooFewBrokers,
    TransactionOpen,
)
from connectors.kafka.reading import Follower, Partition
from tables.state.merge_cursor import MergeCursor, MergeCursors, checksum

A, B, PROGRESS = ("aq.__shard.a.trade", 0), ("aq.__shard.b.trade", 0), ("aq.__progress.b", 0)
TOPICS = TopicPlans(
    prefix="aq",
    replication_factor=1,
    cleanup_policy="delete",
    retention_ms=-1,
    max_message_bytes=1 << 20,
    journal_partitions=1,
    offline_seconds=120.0,
)
PLAN = MergePlan(
    name="trade",
    destinations=("a", "b"),
    prefix="aq",
    wait=1.0,
    passes=True,
    all_destinations=frozenset({"a", "b", "elsewhere"}),
    stalled_after=10.0,
    accepts_gone=False,
    topics=TOPICS,
    kafka_options={},
    compression=None,
    max_bytes=1 << 20,
    max_batch_bytes=1 << 20,
)


class FakeFollower:
    """Partitions in memory: offsets below ``readable_to`` can be read, those below ``ends_of`` are written."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.firsts: dict[Partition, int] = {}
        self.ends_of: dict[Partition, int] = {}
        self.positions: dict[Partition, int] = {}
        self.readable_to: dict[Partition, int] = {}
        """If another than the end."""
        self.waiting: dict[Partition, list[Any]] = {}
        self.later: list[dict[Partition, list[Any]]] = []
        """What waits after each read that asked for some partitions only."""
        self.paused: list[Partition] = []
        self.most: list[int | None] = []
        """The limits of reads from all partitions."""
        self.leaderless: frozenset[Partition] = frozenset()
        self.hidden: set[str] = set()
        """The topics that exist and are not listed, as the account may not see them."""
        self.others: dict[Partition, AqueductError] = {}
        """The partitions that have a leader and cannot be read, with the reason."""

    @property
    def unreadable(self) -> dict[Partition, AqueductError]:
        leaderless = {
            one: TooFewBrokers(f"partition {one[1]} has no leader", topic=one[0])
            for one in self.leaderless
        }
        return {**self.others, **leaderless}

    async def partitions(self, prefixes: list[str]) -> dict[str, int]:
        return {one: n for one, n in self.counts.items() if one.startswith(tuple(prefixes))}

    async def follow(self, starts: dict[Partition, int]) -> None:
        self.positions |= starts

    async def leave(self, partitions: Iterable[Partition]) -> None:
        for one in partitions:
            del self.positions[one]

    async def read(
        self, _seconds: float, *, most: int | None = None, only: Iterable[Partition] = ()
    ) -> dict[Partition, list[Any]]:
        chosen = set(only) or self.waiting.keys()
        found = {one: records for one, records in self.waiting.items() if one in chosen}
        self.waiting = {one: each for one, each in self.waiting.items() if one not in found}
        for one, records in found.items():
            self.positions[one] = records[-1].offset + 1 if records else self.positions[one]
        if not only:
            self.most.append(most)
        elif self.later:
            self.waiting |= self.later.pop(0)
        return found

    async def position(self, one: Partition) -> int:
        return self.positions[one]

    async def beginnings(self, wanted: Any) -> dict[Partition, int]:
        return {one: self.firsts.get(one, 0) for one in wanted}

    async def ends(self, wanted: Any) -> dict[Partition, int]:
        assert not self.leaderless & set(wanted), "no broker would answer"
        return {one: self.ends_of.get(one, 0) for one in wanted}

    async def readable(self, wanted: Any) -> dict[Partition, int]:
        assert not self.leaderless & set(wanted), "no broker would answer"
        return {one: self.readable_to.get(one, self.ends_of.get(one, 0)) for one in wanted}

    async def unread(self) -> dict[Partition, int]:
        return {
            one: self.ends_of.get(one, 0) - at
            for one, at in self.positions.items()
            if one not in self.leaderless
        }

    def pause(self, wanted: list[Partition]) -> None:
        self.paused = list(wanted)


def record(offset: int, value: dict[str, Any] | None) -> Any:
    raw = None if value is None else orjson.dumps(value)
    return SimpleNamespace(offset=offset, key=b"{}", value=raw, headers=())


def row(time_ms: int) -> dict[str, Any]:
    return {"before": None, "source": {"ts_ms": time_ms, "snapshot": "false"}, "ts_ms": 1}


def made(
    fake: FakeFollower,
    cursors: MergeCursors | None = None,
    plan: MergePlan = PLAN,
    wanted: dict[str, int] | None = None,
    unusable: Iterable[str] = (),
    waiting: dict[str, str] | None = None,
    check: Callable[[Mapping[Partition, int]], Awaitable[None]] | None = None,
    left: dict[str, str] | None = None,
) -> Shares:
    """``wanted``: takes in the topics that were to be had, with their counts; ``waiting``: those that wait.

    ``left``: the merged topics that lack records of destinations that were removed, and why.
    """

    async def unfit(counts: Mapping[str, int]) -> dict[str, str]:
        if wanted is not None:
            wanted.update(counts)
        return {name: "unusable" for name in counts if name in unusable}

    def waits(why: Mapping[str, str]) -> None:
        if waiting is not None:
            waiting.clear()
            waiting.update(why)

    async def hidden(names: Collection[str]) -> set[str]:
        return fake.hidden & {*names}

    async def unmerged() -> dict[str, str]:
        return left or {}

    return Shares(
        plan,
        cast(Follower, fake),
        cursors or MergeCursors(),
        check or unchecked,
        unfit,
        hidden,
        unmerged,
        waits,
    )


async def unchecked(_starts: object) -> None:
    """``start_check`` has tests of its own."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_CONFIRM_SECONDS", 0.0)
    monkeypatch.setattr(module, "_ASK_SECONDS", 0.0)


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
        wanted: dict[str, int] = {}
        shares = made(fake, cursors, wanted=wanted)
        await shares.look()
        assert wanted == {}
        fake.ends_of = {("aq.__shard.a.trade", 1): 7}
        fake.counts = {"aq.__shard.a.trade": 2, "aq.__shard.c.trade": 2, "aq.trade": 2}
        await shares.look()
        assert wanted == {"aq.trade": 2}
        assert fake.positions == {("aq.__shard.a.trade", 0): 0, ("aq.__shard.a.trade", 1): 7}
        fake.counts["aq.__shard.b.trade"] = 3
        await shares.look()
        assert wanted == {"aq.trade": 3}
        wanted.clear()
        await shares.look()
        assert wanted == {}
        assert set(shares.orders) == {("aq.trade", n) for n in range(3)}

    asyncio.run(steps())


async def test_shares_are_not_read_while_their_merged_topic_cannot_be_written_to() -> None:
    fake, unusable = FakeFollower(), {"aq.trade"}
    fake.counts = {"aq.__shard.a.trade": 1, "aq.__shard.b.other": 1}
    shares = made(fake, unusable=unusable)
    await shares.look()
    assert fake.positions == {("aq.__shard.b.other", 0): 0}
    unusable.clear()
    await shares.look()
    assert fake.positions.keys() == {("aq.__shard.b.other", 0), ("aq.__shard.a.trade", 0)}


async def test_a_merged_topic_that_lacks_records_of_a_removed_destination_waits_alone() -> None:
    fake, waiting, other = FakeFollower(), dict[str, str](), ("aq.__shard.b.other", 0)
    fake.counts = {A[0]: 1, other[0]: 1}
    # No other destination has records for the second of them.
    left = {"aq.trade": "MergeUnfinished: so", "aq.alone": "MergeUnfinished: so"}
    shares = made(fake, waiting=waiting, left=left)
    await shares.look()
    assert (fake.positions, waiting) == ({other: 0}, left)
    left.clear()
    await shares.look()
    assert (fake.positions, waiting) == ({other: 0, A: 0}, {})


async def test_a_merged_topic_waits_alone_for_records_that_are_gone_until_that_is_accepted() -> (
    None
):
    other, waiting = ("aq.__shard.b.other", 0), dict[str, str]()
    for plan, wanted in (
        (PLAN, {other: 0}),
        (replace(PLAN, accepts_gone=True), {other: 0, A: 4}),
    ):
        fake = FakeFollower()
        fake.counts, fake.firsts, fake.ends_of = {A[0]: 1, other[0]: 1}, {A: 4}, {A: 6}
        shares = made(fake, plan=plan, waiting=waiting)
        await shares.look()
        assert fake.positions == wanted
        if plan is PLAN:
            assert waiting.keys() == {"aq.trade"}
            assert re.match(
                r"RecordsGone: .*4 offsets .* topic=aq.__shard.a.trade, partition=0, offset=0, first=4",
                waiting["aq.trade"],
            )
            # Without shard a: not all of its topics could be read.
            assert shares.unread_offsets == {"b": 0}
    assert (waiting, shares.unread_offsets) == ({}, {"a": 2, "b": 0})


async def test_a_merged_topic_waits_alone_for_a_share_without_a_leader_and_continues_with_it() -> (
    None
):
    fake, waiting = FakeFollower(), dict[str, str]()
    other = ("aq.__shard.b.other", 0)
    fake.counts = {A[0]: 1, B[0]: 1, other[0]: 1, PROGRESS[0]: 1}
    fake.leaderless = frozenset({B, PROGRESS})
    shares = made(fake, waiting=waiting)
    await shares.look()
    await shares.marks.read()
    assert fake.positions == {other: 0}
    assert waiting.keys() == {"aq.trade"}
    assert "TooFewBrokers" in waiting["aq.trade"]
    assert "partition 0 has no leader [topic=aq.__shard.b.trade" in waiting["aq.trade"]
    # What the other shard has of it is not read either.
    assert shares.unread_offsets == {}
    fake.leaderless = frozenset()
    await shares.look()
    assert waiting == {}
    assert fake.positions.keys() == {A, B, other, PROGRESS}
    assert (shares.unread_offsets, shares.blocked) == ({"a": 0, "b": 0}, set())
    # It is lost while it is followed.
    fake.leaderless = frozenset({B, PROGRESS})
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert shares.blocked == {("aq.trade", 0)}
    fake.waiting = {A: [record(0, row(100))], other: [record(0, row(90))]}
    await shares.read(0)
    await shares.confirm()
    assert len(shares.orders["aq.other", 0].lanes[1].records) == 1
    fake.leaderless = frozenset()
    await shares.look()
    assert (waiting, shares.blocked) == ({}, set())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            TransactionOpen("x", remedy="python -m app journal abort DEST --topic t"),
            "python -m app journal abort merge.trade --topic t",
        ),
        (KafkaDenied("the account may not read it", topic=B[0]), f"topic={B[0]}"),
    ],
)
async def test_a_merged_topic_waits_alone_for_a_share_that_cannot_be_read(
    error: AqueductError, text: str
) -> None:
    fake, waiting = FakeFollower(), dict[str, str]()
    other = ("aq.__shard.b.other", 0)
    fake.counts = {A[0]: 1, B[0]: 1, other[0]: 1, PROGRESS[0]: 1}
    shares = made(fake, waiting=waiting)
    await shares.look()
    fake.others = {B: error, PROGRESS: error}
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert text in waiting["aq.trade"]
    assert shares.blocked == {("aq.trade", 0)}
    assert shares.marks_away == {"b": error}
    # The topic of marks may not be waited for, as it is read before all others.
    fake.ends_of = {PROGRESS: 9}
    await asyncio.wait_for(shares.marks.read(), 60)
    fake.waiting = {other: [record(0, row(90))]}
    await shares.read(0)
    assert len(shares.orders["aq.other", 0].lanes[1].records) == 1
    fake.others = {}
    await shares.look()
    assert (waiting, shares.blocked, shares.marks_away) == ({}, set(), {})


@pytest.mark.parametrize("denied", [B[0], "aq.trade"])
async def test_a_topic_that_may_not_be_read_as_a_run_begins_makes_its_merged_topic_wait_alone(
    denied: str,
) -> None:
    fake, waiting = FakeFollower(), dict[str, str]()
    other = ("aq.__shard.b.other", 0)
    fake.counts = {A[0]: 1, B[0]: 1, other[0]: 1}
    refused = True

    async def check(starts: Mapping[Partition, int]) -> None:
        if refused and B in starts:
            raise KafkaDenied("the account may not read it", topic=denied)

    shares = made(fake, waiting=waiting, check=check)
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert f"topic={denied}" in waiting["aq.trade"]
    assert fake.positions == {other: 0}
    refused = False
    await shares.look()
    assert (waiting, fake.positions) == ({}, {A: 0, B: 0, other: 0})


async def test_an_account_that_may_read_nothing_ends_the_run() -> None:
    fake = FakeFollower()
    fake.counts = {A[0]: 1}

    async def check(_starts: object) -> None:
        raise KafkaDenied("the account may not connect")

    with pytest.raises(KafkaDenied, match="may not connect"):
        await made(fake, check=check).look()


async def test_a_share_that_is_hidden_from_the_account_is_waited_for_as_it_is_not_absent() -> None:
    fake, waiting = FakeFollower(), dict[str, str]()
    fake.counts = {A[0]: 1}
    fake.hidden = {B[0], PROGRESS[0]}
    # One that is really gone, as its shard was removed, is not waited for.
    begun = {
        one: MergeCursor(merge="merge.trade", topic=one, offsets={}, ts_ms=1)
        for one in (A[0], B[0], "aq.__shard.b.other")
    }
    cursors = MergeCursors(begun)
    shares = made(fake, cursors, waiting=waiting)
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert f"the account may not see it [topic={B[0]}" in waiting["aq.trade"]
    assert shares.marks_away["b"].context["topic"] == PROGRESS[0]
    assert fake.positions == {}
    fake.hidden, fake.counts = set(), {A[0]: 1, B[0]: 1, PROGRESS[0]: 1}
    await shares.look()
    assert (waiting, shares.marks_away) == ({}, {})
    # It may also be hidden while it is read.
    fake.counts, fake.hidden = {A[0]: 1}, {B[0]}
    await shares.look()
    assert shares.blocked == {("aq.trade", 0)}


async def test_a_merged_topic_in_which_a_transaction_is_open_is_not_begun_and_the_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, waiting = FakeFollower(), dict[str, str]()
    other, merged = ("aq.__shard.b.other", 0), ("aq.trade", 0)
    fake.counts = {A[0]: 1, other[0]: 1}
    fake.ends_of, fake.readable_to = {merged: 9}, {merged: 4}
    is_open = True

    async def refuse(_: object, topic: str, partition: int, *, position: int) -> None:
        assert (topic, partition, position) == (*merged, 4)
        if is_open:
            raise TransactionOpen("x", remedy="python -m app journal abort DEST --topic aq.trade")

    monkeypatch.setattr(module, "refuse_open", refuse)
    shares = made(fake, waiting=waiting)
    await shares.look()
    assert fake.positions == {other: 0}
    assert "python -m app journal abort merge.trade --topic aq.trade" in waiting["aq.trade"]
    # It has ended, and its end is still to be written.
    is_open = False
    await shares.look()
    assert (fake.positions, waiting) == ({other: 0}, {})
    assert shares.blocked == {merged}
    fake.readable_to = {}
    await shares.look()
    assert fake.positions == {A: 0, other: 0}


@pytest.mark.parametrize("headers", [(("ts_ms", None),), (("x", None),)])
async def test_a_record_with_headers_that_are_none_stops_its_merged_topic_alone(
    headers: Any,
) -> None:
    fake, waiting = FakeFollower(), dict[str, str]()
    other = ("aq.__shard.b.other", 0)
    fake.counts = {A[0]: 1, other[0]: 1}
    shares = made(fake, waiting=waiting)
    await shares.look()
    foreign = record(0, row(100))
    foreign.headers = headers
    fake.waiting = {A: [foreign], other: [record(0, row(90))]}
    await shares.read(0)
    await shares.look()
    assert "RecordForeign" in waiting["aq.trade"]
    assert len(shares.orders["aq.other", 0].lanes[1].records) == 1


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
            assert order.take() == []
        fake.waiting = {b: [record(0, row(90))]}
        await shares.read(0)
        assert [held.time_ms for _, held in order.take()] == [90]
        await shares.confirm()
        assert order.take() == []
        fake.positions[b] = 2
        await shares.confirm()
        assert [held.time_ms for _, held in order.take()] == [100]

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
        assert shares.orders["aq.trade", 0].take() == []
        fake.waiting = {progress: [record(0, {"complete_ms": 100})]}
        await shares.read(0)
        shares.complete_absent()
        # The topic may have been made since the last look, and contain what is complete.
        assert shares.orders["aq.trade", 0].take() == []
        await shares.look()
        shares.complete_absent()
        assert len(shares.orders["aq.trade", 0].take()) == 1

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


async def two_lanes(fake: FakeFollower, plan: MergePlan = PLAN) -> Shares:
    fake.counts = {A[0]: 1, B[0]: 1, PROGRESS[0]: 1}
    shares = made(fake, plan=plan)
    await shares.look()
    return shares


async def test_a_lane_is_read_as_of_the_time_at_which_no_more_of_it_could_be_read() -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake)
    lane = shares.by_partition[B].lane
    fake.waiting = {A: [record(0, row(100))]}
    fake.ends_of = {B: 4}
    fake.readable_to = {B: 2}
    await shares.read(0)
    await shares.confirm()
    assert lane.read_as_of == float("-inf")
    asked = time.monotonic()
    fake.waiting = {B: [record(1, row(90))]}
    await shares.read(0)
    # More has come meanwhile, which was not asked for.
    fake.readable_to = {B: 3}
    lane.pop()
    await shares.confirm()
    assert float("-inf") < lane.read_as_of <= asked
    fake.positions[B] = 3
    await shares.confirm()
    # The rest is in a transaction that is open: it is waited for as if nothing were written yet.
    assert lane.read_as_of > asked


async def test_after_a_backlog_the_order_is_kept_however_long_records_have_waited() -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake, replace(PLAN, wait=0.0))
    order = shares.orders["aq.trade", 0]
    fake.ends_of = {A: 1, B: 2}
    fake.waiting = {A: [record(0, row(100))], PROGRESS: [record(0, {"complete_ms": 150})]}
    released: list[int] = []
    # The records of b are in Kafka, and are fetched long after those of a.
    for fetched in ([], [record(0, row(80))], [record(1, row(90))], []):
        await shares.read(0)
        await shares.confirm()
        released += [held.time_ms for _, held in order.take()]
        fake.waiting |= {B: fetched} if fetched else {}
    await shares.read(0)
    await shares.confirm()
    released += [held.time_ms for _, held in order.take()]
    assert (released, order.late) == ([80, 90, 100], 0)


async def test_a_shard_that_has_nothing_to_read_is_waited_for_no_longer_than_that() -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake, replace(PLAN, wait=0.0))
    fake.ends_of = {A: 1, B: 2}
    fake.readable_to = {B: 0}
    fake.waiting = {A: [record(0, row(100))]}
    await shares.read(0)
    assert shares.orders["aq.trade", 0].take() == []
    await shares.confirm()
    assert len(shares.orders["aq.trade", 0].take()) == 1


async def test_what_is_not_read_is_counted_by_shard() -> None:
    fake = FakeFollower()
    fake.ends_of = {A: 3, B: 5, PROGRESS: 9}
    shares = await two_lanes(fake)
    assert shares.unread_offsets == {"a": 3, "b": 5}
    fake.positions[A] = 3
    await shares.look()
    assert shares.unread_offsets == {"a": 0, "b": 5}


async def test_no_more_is_taken_in_at_once_than_can_be_held() -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake)
    await shares.read(0)
    assert fake.most == [module._MOST_READ]


async def test_a_mark_that_was_fetched_long_ago_is_not_taken_for_the_newest() -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake)
    fake.waiting = {PROGRESS: [record(0, {"complete_ms": 100})]}
    fake.later = [{PROGRESS: [record(1, {"complete_ms": 900})]}]
    fake.ends_of = {PROGRESS: 2}
    await shares.marks.read()
    assert shares.marks.newest == {"b": 900}


def cursors_at(offset: int, last: Any) -> MergeCursors:
    sums = {"0": checksum(last.key, last.value, last.headers)} if last is not None else {}
    found = MergeCursors()
    found.by_topic[A[0]] = MergeCursor(
        merge="merge.trade", topic=A[0], offsets={"0": offset}, checksums=sums, ts_ms=1
    )
    return found


async def read_of(fake: FakeFollower, cursors: MergeCursors, plan: MergePlan = PLAN) -> list[int]:
    """The offsets that are held after a read."""
    fake.counts = {A[0]: 1}
    shares = made(fake, cursors, plan)
    await shares.look()
    first = fake.positions[A]
    fake.waiting = {A: [one for one in fake.waiting[A] if one.offset >= first]}
    await shares.read(0)
    return [held.offset for held in shares.by_partition[A].lane.records]


@pytest.mark.parametrize("has_checksum", [False, True])
async def test_a_topic_that_ends_before_the_cursor_was_truncated_or_recreated(
    has_checksum: bool,
) -> None:
    fake = FakeFollower()
    fake.ends_of = {A: 6}
    fake.waiting = {A: [record(5, row(1))]}
    last = record(6, row(1)) if has_checksum else None
    assert await read_of(fake, cursors_at(6, last and record(5, row(1)))) == []
    for plan in (PLAN, replace(PLAN, accepts_gone=True)):
        waiting: dict[str, str] = {}
        await made(fake, cursors_at(7, last), plan, waiting=waiting).look()
        found = waiting["aq.trade"]
        assert re.match("TopicUnfit.*ends at offset 6, and was merged up to 7.* partition=0", found)


async def test_records_at_offsets_that_were_used_before_are_not_taken_for_merged_ones() -> None:
    fake, merged = FakeFollower(), record(6, row(1))
    fake.ends_of = {A: 9}
    stored = [merged, record(8, row(3))]
    fake.waiting = {A: stored}
    assert await read_of(fake, cursors_at(7, merged)) == [8]
    # Without a checksum nothing is known of it.
    fake.waiting = {A: stored}
    assert await read_of(fake, cursors_at(7, None)) == [8]
    for others in ([record(6, row(2)), stored[1]], [stored[1]]):
        fake.counts, fake.waiting, waiting = {A[0]: 1, B[0]: 1}, {A: others}, dict[str, str]()
        shares = made(fake, cursors_at(7, merged), waiting=waiting)
        await shares.look()
        await shares.read(0)
        assert (fake.positions, shares.by_partition, shares.orders) == ({}, {}, {})
        # It is tried again, and waits until the record is there that was merged.
        for stored_now, is_over in ((others, False), (stored, True)):
            fake.waiting = {A: stored_now}
            await shares.look()
            await shares.read(0)
            await shares.look()
            if not is_over:
                assert "record at offset 6 is not the one that was merged" in waiting["aq.trade"]
        assert waiting == {}
    # Its record may have been superseded, or deleted by the retention.
    fake.waiting = {A: [stored[1]]}
    compacted = replace(PLAN, topics=replace(TOPICS, cleanup_policy="compact"))
    assert await read_of(fake, cursors_at(7, merged), compacted) == [8]
    fake.firsts = {A: 7}
    fake.waiting = {A: [stored[1]]}
    assert await read_of(fake, cursors_at(7, merged)) == [8]


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b'{"source":{"ts_ms":x,"snapshot":"false"}}', ()),
        (b"{}", (("ts_ms", b"yesterday"),)),
    ],
)
async def test_a_record_that_another_program_wrote_is_named(value: bytes, headers: Any) -> None:
    fake, waiting, other = FakeFollower(), dict[str, str](), ("aq.__shard.a.other", 0)
    fake.counts = {A[0]: 1, B[0]: 1, other[0]: 1}
    shares = made(fake, waiting=waiting)
    await shares.look()
    foreign = SimpleNamespace(offset=3, key=b"{}", value=value, headers=headers)
    fake.waiting = {
        A: [record(2, row(1)), foreign], B: [record(0, row(1))], other: [record(0, row(1))],
    }  # fmt: skip
    await shares.read(0)
    # Its merged topic waits alone.
    assert shares.by_partition.keys() == fake.positions.keys() == {other}
    assert len(shares.by_partition[other].lane.records) == 1
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert "topic=aq.__shard.a.trade, partition=0, offset=3" in waiting["aq.trade"]
    assert "yesterday" not in str(waiting)
    assert shares.by_partition.keys() == {A, B, other}
    assert shares.blocked == set()
    # It was removed from the topic.
    fake.waiting = {A: [record(2, row(1)), record(4, row(1))]}
    await shares.read(0)
    await shares.look()
    assert waiting == {}


async def test_a_merged_topic_waits_alone_for_a_foreign_record_at_its_end() -> None:
    fake, waiting, other = FakeFollower(), dict[str, str](), ("aq.__shard.a.other", 0)
    fake.counts = {A[0]: 1, B[0]: 1, other[0]: 1}
    shares = made(fake, waiting=waiting)
    is_foreign = True

    async def check(starts: Mapping[Partition, int]) -> None:
        if is_foreign and A in starts:
            raise RecordForeign("it has no seq", topic="aq.trade", partition=0, offset=9)

    shares.check = check
    await shares.look()
    assert waiting.keys() == {"aq.trade"}
    assert shares.by_partition.keys() == {other}
    is_foreign = False
    await shares.look()
    assert waiting == {}
    assert shares.by_partition.keys() == {A, B, other}


async def test_a_mark_that_another_program_wrote_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake = FakeFollower()
    shares = await two_lanes(fake)
    foreign = [b"{", b"[]", b"{}", b'{"complete_ms":"x"}', b'{"complete_ms":null}', None]
    fake.waiting = {
        PROGRESS: [
            *(SimpleNamespace(offset=at, value=one) for at, one in enumerate(foreign)),
            record(9, {"complete_ms": 7}),
        ]
    }
    with caplog.at_level(logging.WARNING):
        await shares.read(0)
    assert shares.marks.newest == {"b": 7}
    assert len(caplog.records) == len(foreign)
