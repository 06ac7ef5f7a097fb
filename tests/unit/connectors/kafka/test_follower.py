"""Partitions that are followed, by consumers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from connectors.errors import KafkaDenied, KafkaLost, TooFewBrokers, TransactionOpen
from connectors.kafka import reading as module
from connectors.kafka.reading import Follower, Partition, read_to_ends

A, B, C = ("a", 0), ("b", 0), ("c", 1)


class Client:
    """The connections of a consumer, which looks for topics that it is to know."""

    def __init__(self) -> None:
        self.leaders: dict[Partition, int] = {}
        self.added: list[str] = []
        self.known: list[str] = []

    def add_topic(self, topic: str) -> None:
        self.added.append(topic)

    async def _wait_on_metadata(self, topic: str) -> None:
        assert topic in self.added
        self.known.append(topic)

    async def fetch_all_metadata(self) -> Cluster:
        return Cluster(self.leaders)


class FakeConsumer:
    """Partitions with an end; what is read of them moves the position."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.held: set[TopicPartition] = set()
        self.denied: set[str] = set()
        """Topics that the account may not read."""
        self.asked: list[tuple[tuple[TopicPartition, ...], int | None]] = []
        self._client = Client()

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.positions, self.held = dict.fromkeys(partitions, 0), set()

    def pause(self, *partitions: TopicPartition) -> None:
        self.held |= {*partitions}

    def resume(self, *partitions: TopicPartition) -> None:
        self.held -= {*partitions}

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.positions[tp] = offset

    async def position(self, tp: TopicPartition) -> int:
        return self.positions[tp]

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions}

    def paused(self) -> set[TopicPartition]:
        return self.held

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int, max_records: int | None
    ) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms == 0
        self.asked.append((partitions, max_records))
        for tp in self.positions:
            if tp.topic in self.denied and (not partitions or tp in partitions):
                raise TopicAuthorizationFailedError(tp.topic)
        return {}


class Cluster:
    """What brokers answer of all topics: the leaders of partitions."""

    def __init__(self, leaders: Mapping[Partition, int]) -> None:
        self._leaders = leaders

    def topics(self) -> set[str]:
        return {topic for topic, _ in self._leaders}

    def partitions_for_topic(self, name: str) -> set[int]:
        return {number for topic, number in self._leaders if topic == name}

    def leader_for_partition(self, tp: TopicPartition) -> int:
        return self._leaders[tp]


class Scene:
    """A follower of three partitions, and the partitions that brokers were asked about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed, self.all = FakeConsumer(), FakeConsumer()
        self.follower = self.made(omits_unreadable=True)
        self.asked: list[tuple[str, int, int]] = []
        self.open: set[Partition] = set()

        async def refuse(_: object, topic: str, partition: int, *, position: int) -> None:
            self.asked.append((topic, partition, position))
            if (topic, partition) in self.open:
                raise TransactionOpen(topic=topic)

        monkeypatch.setattr(module, "refuse_open", refuse)
        monkeypatch.setattr(module, "HELD", 0.0)

    def made(self, *, omits_unreadable: bool, answer_seconds: float = 60.0) -> Follower:
        async def connect(isolation: str) -> AIOKafkaConsumer:
            return {"read_committed": self.committed, "read_uncommitted": self.all}[isolation]

        return Follower({}, connect, answer_seconds, omits_unreadable)

    async def begin(self) -> None:
        await self.follower.follow({A: 3, B: 5, C: 7})
        for one, end in ((A, 3), (B, 5), (C, 7)):
            self.committed.ends[TopicPartition(*one)] = end
            self.all.ends[TopicPartition(*one)] = end


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_a_transaction_that_stays_open_is_an_error_and_one_that_ends_is_none(
    scene: Scene,
) -> None:
    scene.follower = scene.made(omits_unreadable=False)
    await scene.begin()
    assert await scene.follower.unread() == {A: 0, B: 0, C: 0}
    for one in (A, B, C):
        scene.all.ends[TopicPartition(*one)] += 4
    scene.open = {A, B, C}
    # Only now have they more; how long they were at their ends before does not matter.
    assert await scene.follower.unread() == {A: 4, B: 4, C: 4}
    # One was read since, another is held back on purpose.
    scene.committed.positions[TopicPartition(*A)] += 2
    scene.committed.held = {TopicPartition(*C)}
    with pytest.raises(TransactionOpen, match="topic=b"):
        await scene.follower.unread()
    assert scene.asked == [("b", 0, 5)]


async def test_what_does_not_move_for_another_reason_is_waited_for(scene: Scene) -> None:
    scene.follower = scene.made(omits_unreadable=False)
    await scene.begin()
    scene.all.ends[TopicPartition(*B)] = 9
    for _ in range(3):
        assert (await scene.follower.unread())[B] == 4
    assert scene.asked == [("b", 0, 5)] * 2


async def test_one_that_omits_what_cannot_be_read_lists_a_partition_until_its_transaction_ends(
    scene: Scene,
) -> None:
    await scene.begin()
    scene.all.ends |= {TopicPartition(*A): 9, TopicPartition(*B): 9}
    scene.open = {A, B}
    for _ in range(3):
        assert await scene.follower.unread() == {A: 6, B: 4, C: 0}
    held = scene.follower.unreadable
    assert {one: type(error) for one, error in held.items()} == dict.fromkeys(
        (A, B), TransactionOpen
    )
    # One is read on, the other is held back on purpose.
    scene.committed.positions[TopicPartition(*A)] = 9
    scene.follower.pause([B])
    await scene.follower.unread()
    assert scene.follower.unreadable.keys() == {B}
    # What is held back is not fetched, so nothing but a broker's answer shows that the transaction has ended.
    scene.open = set()
    for _ in range(2):
        await scene.follower.unread()
    assert scene.follower.unreadable == {}


async def test_a_topic_that_may_not_be_read_is_listed_until_it_may_and_the_others_are_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.begin()
    scene.all._client.leaders = {A: 1, B: 1, C: 1}
    scene.committed.positions[TopicPartition(*B)] = 6
    scene.committed.denied = {"b"}
    await scene.follower.read(0)
    await scene.follower.partitions([])
    assert {one: type(error) for one, error in scene.follower.unreadable.items()} == {
        B: KafkaDenied
    }
    assert scene.committed.positions == {A: 3, C: 7}
    # It is tried at intervals, from its position on.
    monkeypatch.setattr(module, "_DENIED_SECONDS", 0.0)
    for _ in range(3):
        await scene.follower.partitions([])
        assert scene.committed.positions == {A: 3, B: 6, C: 7}
        await scene.follower.read(0)
        assert scene.committed.positions == {A: 3, C: 7}
        assert scene.follower.unreadable.keys() == {B}
    scene.committed.denied = set()
    for _ in range(3):
        assert scene.follower.unreadable.keys() == {B}
        await scene.follower.partitions([])
        await scene.follower.read(0)
    assert scene.follower.unreadable == {}
    assert scene.committed.positions == {A: 3, B: 6, C: 7}
    scene.committed.denied = {"b"}
    await scene.follower.read(0)
    await scene.follower.leave([B])
    assert scene.follower.unreadable == {}


async def test_what_can_be_read_ends_before_an_open_transaction(scene: Scene) -> None:
    await scene.begin()
    scene.all.ends[TopicPartition(*B)] = 9
    assert await scene.follower.readable([B]) == {B: 5}
    assert await scene.follower.ends([B]) == {B: 9}


async def test_a_consumer_looks_for_each_topic_once_before_it_is_asked_for_it(scene: Scene) -> None:
    await scene.begin()
    await scene.follower.ends([A, B])
    await scene.follower.readable([B, C])
    await scene.follower.ends([A, C])
    assert sorted(scene.committed._client.known) == ["a", "b", "c"]
    assert sorted(scene.all._client.known) == ["a", "b", "c"]


async def test_a_partition_that_is_begun_again_is_fetched_though_it_was_held_back(
    scene: Scene,
) -> None:
    await scene.begin()
    scene.follower.pause([A, B])
    await scene.follower.follow({A: 1})
    assert scene.committed.positions == {A: 1, B: 5, C: 7}
    assert scene.committed.held == {B}
    await scene.follower.follow({C: 2}, alone=True)
    assert (scene.committed.positions, scene.committed.held) == ({C: 2}, set())


async def test_a_read_takes_no_more_than_is_wanted(scene: Scene) -> None:
    await scene.begin()
    await scene.follower.read(0, most=10)
    await scene.follower.read(0, only=[B])
    assert scene.committed.asked == [((), 10), ((TopicPartition(*B),), None)]


async def test_a_partition_without_a_leader_is_not_asked_for_and_is_read_on_once_it_has_one(
    scene: Scene,
) -> None:
    await scene.begin()
    scene.all._client.leaders = {A: 1, B: 1, C: 1, ("other", 0): 1}
    assert await scene.follower.partitions(["a", "b", "c"]) == {"a": 1, "b": 1, "c": 1}
    scene.committed.positions[TopicPartition(*B)] += 1
    scene.all.ends |= {TopicPartition(*A): 4, TopicPartition(*B): 9}
    scene.all._client.leaders[B] = -1
    assert await scene.follower.partitions(["a"]) == {"a": 1}
    assert scene.follower.leaderless == {B}
    assert isinstance(scene.follower.unreadable[B], TooFewBrokers)
    assert scene.committed.positions == {A: 3, C: 7}
    assert await scene.follower.unread() == {A: 1, C: 0}
    assert await scene.follower.position(B) == 6
    # Nor if it is chosen, alone or with another one.
    await scene.follower.read(0, only=[B])
    await scene.follower.read(0, only=[A, B])
    assert scene.committed.asked == [((TopicPartition(*A),), None)]
    await scene.follower.follow({("d", 0): 2})
    assert scene.committed.positions == {A: 3, C: 7, ("d", 0): 2}
    scene.all._client.leaders[B] = 2
    await scene.follower.partitions([])
    assert scene.committed.positions == {A: 3, B: 6, C: 7, ("d", 0): 2}


async def test_one_that_looks_for_topics_once_reads_a_partition_that_had_no_leader_then(
    scene: Scene,
) -> None:
    scene.follower = scene.made(omits_unreadable=False)
    await scene.begin()
    scene.all._client.leaders = {A: 1, B: -1, C: 1}
    await scene.follower.partitions(["a"])
    await scene.follower.follow({("d", 0): 2})
    assert scene.committed.positions == {A: 3, B: 5, C: 7, ("d", 0): 2}


async def test_brokers_that_do_not_say_where_a_partition_ends_are_an_error_soon(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.follower = scene.made(omits_unreadable=False, answer_seconds=0.01)
    await scene.begin()

    async def nothing(_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(scene.all, "end_offsets", nothing)
    with pytest.raises(KafkaLost, match=r"for offsets of 2 partitions: a \[0\], b \[0\]"):
        await scene.follower.ends([A, B])


async def test_an_end_is_given_up_once_nothing_moves_and_not_while_markers_do(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.begin()
    scene.all.ends[TopicPartition(*B)] = 9
    monkeypatch.setattr(module, "_POLL_SECONDS", 0)
    monkeypatch.setattr(module, "SILENCE", 0.05)
    read = scene.committed.getmany

    async def slowly(*partitions: TopicPartition, **more: Any) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0.03)
        scene.committed.positions[TopicPartition(*B)] += 1
        return await read(*partitions, **more)

    monkeypatch.setattr(scene.committed, "getmany", slowly)
    await read_to_ends(scene.follower, [A, B], lambda *_: None)
    assert scene.committed.positions[TopicPartition(*B)] == 9
    scene.all.ends[TopicPartition(*C)] = 8

    async def nothing(*_: TopicPartition, **__: Any) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0.01)
        return {}

    monkeypatch.setattr(scene.committed, "getmany", nothing)
    async with asyncio.timeout(5):
        with pytest.raises(KafkaLost, match=r"an end was not reached .*topic=c, partition=1"):
            await read_to_ends(scene.follower, [A, C], lambda *_: None)


async def test_consumers_that_cannot_start_or_stop_are_named_or_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unable:
        def __init__(self, **_: Any) -> None:
            self.is_able = able.pop(0)

        async def start(self) -> None:
            if not self.is_able:
                raise KafkaConnectionError("no broker")

        async def stop(self) -> None:
            stopped.append(self.is_able)
            raise KafkaConnectionError("the connection is gone")

        def assign(self, _: object) -> None:
            """Nothing is followed."""

        async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
            return {}

        _client = Client()

    able, stopped = [True, False, True, True], list[bool]()
    monkeypatch.setattr(module, "AIOKafkaConsumer", Unable)
    async with Follower.opened({"bootstrap_servers": "127.0.0.1:1"}) as follower:
        await follower.follow({})
        with pytest.raises(KafkaLost, match="no broker"):
            await follower.ends([A])
    assert stopped == [False, True]
    async with Follower.opened({}) as follower:
        await follower.follow({})
        await follower.ends([A])
        stopped.clear()
    assert stopped == [True, True]
