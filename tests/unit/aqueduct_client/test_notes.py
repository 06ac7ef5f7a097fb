"""Where a group begins, and continues when Kafka has forgotten it, in the in-memory twin."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from aqueduct_client import start_positions
from aqueduct_client.errors import TopicReplaced, UnknownTable
from aqueduct_client.notes import TopicNote
from aqueduct_client.record_selection import Selection
from aqueduct_client.records import Partition
from aqueduct_client.start_positions import AfterSeq, Latest
from aqueduct_client.subscriber import Subscriber
from tests.unit.aqueduct_client.made import TOPIC, Shop, headers, seqs, value

LATER = "aq.trade.later"


def sent(shop: Shop, topic: str, number: int, *numbers: int) -> None:
    """Write changes to a partition."""
    for seq in numbers:
        shop.kafka.send(Partition(topic, number), value(seq), headers=headers(seq))


async def all_of(subscriber: Subscriber) -> list[int]:
    """Everything up to the end, acknowledged."""
    found: list[int] = []
    while batch := await subscriber.get(timeout=0.05):
        found += seqs(batch)
    return sorted(found)


async def test_a_partition_that_is_added_is_read_from_its_first_record() -> None:
    shop = Shop()
    shop.publish(5)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == []
        shop.kafka.create(TOPIC, 3)
        sent(shop, TOPIC, 1, 101, 102)
        shop.kafka.rebalance("g")
        assert await all_of(subscriber) == [101, 102]
    sent(shop, TOPIC, 2, 103)  # while no client runs, and never committed
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == [103]


async def test_a_partition_that_is_added_while_the_start_is_searched_is_read_from_its_first_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop()
    shop.publish(5)
    found = start_positions.start_offsets

    async def grown(*arguments: Any) -> dict[Partition, int]:
        shop.kafka.create(TOPIC, 3)
        sent(shop, TOPIC, 1, 101, 102)
        return await found(*arguments)

    monkeypatch.setattr("aqueduct_client.subscriber.start_offsets", grown)
    async with shop.subscriber(start=Latest()) as subscriber:
        shop.kafka.rebalance("g")
        assert await all_of(subscriber) == [101, 102]


async def test_a_topic_that_comes_later_is_read_from_its_first_record() -> None:
    shop = Shop()
    shop.publish(5)
    topics = [TOPIC, LATER]
    async with shop.subscriber(start=Latest(), topics=topics) as subscriber:
        assert await all_of(subscriber) == []
    shop.kafka.create(LATER, 2)
    sent(shop, LATER, 1, 101, 102)
    async with shop.subscriber(start=Latest(), topics=topics) as subscriber:
        assert await all_of(subscriber) == [101, 102]


async def test_a_table_that_a_group_takes_up_later_begins_at_the_start() -> None:
    shop = Shop()
    shop.kafka.create(LATER)
    sent(shop, LATER, 0, 101, 102)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == []
    async with shop.subscriber(start=AfterSeq(101), topics=[TOPIC, LATER]) as subscriber:
        assert await all_of(subscriber) == [102]


async def test_members_that_begin_at_once_begin_at_one_position_in_all_partitions() -> None:
    shop = Shop(partitions=4)
    shop.publish(8)
    members = [shop.subscriber(start=Latest()) for _ in range(3)]
    await asyncio.gather(*(each.__aenter__() for each in members))
    shop.publish(8)  # no member has chosen a position of its partitions yet
    found = await asyncio.gather(*map(all_of, members))
    assert sorted(seq for each in found for seq in each) == list(range(9, 17))
    for each in members:
        await each.close()


async def test_a_member_that_ended_before_it_stored_a_position_keeps_the_start() -> None:
    shop = Shop(partitions=2)
    shop.publish(4)
    async with shop.subscriber(start=Latest()):
        assert shop.committed() == {}
    shop.publish(4)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == [5, 6, 7, 8]


async def test_a_group_that_kafka_has_forgotten_continues_where_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Shop(partitions=2)
    shop.publish(4)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == []
        shop.publish(4)
        assert await all_of(subscriber) == [5, 6, 7, 8]
    shop.publish(100)
    shop.kafka.offsets.clear()  # as after offsets.retention.minutes, or by an administrator
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == list(range(9, 109))
    assert "Kafka has forgotten a group's offset" in caplog.text


async def test_a_client_that_was_killed_gets_some_again_and_misses_none() -> None:
    shop = Shop()
    shop.publish(4)
    killed = await shop.subscriber(start=Latest()).__aenter__()
    assert await all_of(killed) == []
    shop.publish(4)
    assert await all_of(killed) == [5, 6, 7, 8]
    await killed._member.aclose()  # without a note
    shop.kafka.offsets.clear()
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == [5, 6, 7, 8]


async def test_progress_is_noted_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct_client.subscriber._NOTE_SECONDS", 0.0)
    shop = Shop()
    shop.publish(4)
    async with shop.subscriber() as subscriber:
        assert await all_of(subscriber) == [1, 2, 3, 4]
        assert len(await subscriber.get_without_ack(timeout=0.01)) == 0
        note = (await shop.notes().read())[TOPIC]
        assert note.reached[0].offset == 4


@pytest.mark.parametrize("ending", [False, True])
async def test_an_ack_while_progress_is_noted_is_noted_too(
    ending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    shop.publish(4)
    subscriber = await shop.subscriber().__aenter__()
    assert seqs(await subscriber.get(2)) == [1, 2]
    batch = await subscriber.get_without_ack(2)
    assert subscriber.notes is not None
    append = subscriber.notes.appends

    async def slow(topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        if records and subscriber.in_flight:
            await subscriber.ack(batch.id)  # by another task
        await append(topic, records)

    subscriber.notes.appends = slow
    if not ending:
        monkeypatch.setattr("aqueduct_client.subscriber._NOTE_SECONDS", 0.0)
        assert len(await subscriber.get_without_ack(timeout=0)) == 0
    await subscriber.close()
    assert shop.committed() == {0: 4}
    assert (await shop.notes().read())[TOPIC].reached[0].offset == 4


async def test_a_group_of_an_earlier_client_or_of_a_plain_consumer_is_no_new_one() -> None:
    shop = Shop(partitions=2)
    shop.publish(4)
    shop.kafka.offsets["g", Partition(TOPIC, 1)] = 1
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == [2, 3, 4]


async def test_a_topic_that_was_made_again_stops_the_group_until_an_operator_decides() -> None:
    shop = Shop()
    shop.publish(4)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert await all_of(subscriber) == []
    shop.kafka.delete(TOPIC)
    shop.kafka.create(TOPIC)
    shop.publish(7)
    with pytest.raises(TopicReplaced, match=r"set GROUP TABLE --earliest"):
        await shop.subscriber(start=Latest()).__aenter__()
    shop.kafka.offsets["g", Partition(TOPIC, 0)] = 0  # as the command does
    await shop.notes().moved(TOPIC, shop.kafka.ids[TOPIC], {0: 0})
    async with shop.subscriber(start=Latest()) as subscriber:
        assert len(await all_of(subscriber)) == 7


async def test_a_topic_that_is_made_again_while_it_is_read_stops_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
    shop = Shop()
    shop.publish(4)
    async with shop.subscriber() as subscriber:
        assert await all_of(subscriber) == [1, 2, 3, 4]
        shop.kafka.delete(TOPIC)
        shop.kafka.create(TOPIC)
        shop.publish(10)  # more than before, so that the position is within it
        with pytest.raises(TopicReplaced):
            await subscriber.get_without_ack()


async def test_a_client_that_continues_after_a_topic_was_made_again_gets_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
    shop = Shop()
    shop.publish(4)
    async with shop.subscriber() as subscriber:
        assert await all_of(subscriber) == [1, 2, 3, 4]
        shop.kafka.delete(TOPIC)
        shop.kafka.create(TOPIC)
        shop.publish(10)
        with pytest.raises(TopicReplaced):
            await subscriber.get()
        monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 10.0)
        for _ in range(2):
            with pytest.raises(TopicReplaced):
                await subscriber.get()
    assert shop.committed() == {}


@pytest.mark.parametrize("is_seen", ["made again", "gone", "not"])
async def test_a_topic_that_came_later_and_was_made_again_stops_the_next_client_too(
    is_seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    async with shop.subscriber(topics=[LATER]) as subscriber:
        assert await all_of(subscriber) == []
        shop.kafka.create(LATER)
        shop.kafka.rebalance("g")
        sent(shop, LATER, 0, 1, 2, 3)
        assert await all_of(subscriber) == [1, 2, 3]
        if is_seen != "not":
            monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
        shop.kafka.delete(LATER)
        if is_seen == "gone":
            assert subscriber._consumer is not None
            await subscriber._look(subscriber._consumer)
        shop.kafka.create(LATER)
        sent(shop, LATER, 0, *range(101, 111))
        if is_seen == "made again":
            with pytest.raises(TopicReplaced):
                await subscriber.get()
    with pytest.raises(TopicReplaced):
        await shop.subscriber(topics=[LATER]).__aenter__()


async def test_a_member_that_takes_over_a_topic_that_came_later_knows_that_it_was_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop()
    first, standby = (shop.subscriber(topics=[LATER]) for _ in range(2))
    for each in (first, standby):
        await each.__aenter__()
    shop.kafka.create(LATER)
    shop.kafka.rebalance("g")
    sent(shop, LATER, 0, 1, 2, 3)
    assert await all_of(first) == [1, 2, 3]
    shop.kafka.delete(LATER)
    shop.kafka.create(LATER)
    sent(shop, LATER, 0, *range(101, 111))
    assert await all_of(first) == [104, 105, 106, 107, 108, 109, 110], "it has not looked yet"
    with monkeypatch.context() as looking:
        looking.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
        assert len(await standby.get(timeout=0)) == 0
    await first.close()
    sent(shop, LATER, 0, 111)
    for _ in range(2):
        with pytest.raises(TopicReplaced):
            await standby.get()
    await standby.close()
    with pytest.raises(TopicReplaced):
        await shop.subscriber(topics=[LATER]).__aenter__()


async def test_a_topic_that_is_deleted_while_it_is_read_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aqueduct_client.subscriber._LOOK_SECONDS", 0.0)
    shop = Shop()
    shop.publish(4)
    selection = Selection(tables={TOPIC: None}, names={TOPIC: frozenset({"trade.orders"})})
    async with dataclasses.replace(shop.subscriber(), selection=selection) as subscriber:
        assert await all_of(subscriber) == [1, 2, 3, 4]
        shop.kafka.delete(TOPIC)
        shop.kafka.rebalance("g")
        with pytest.raises(
            UnknownTable, match=r"trade\.orders: there is no topic aq\.trade\.orders"
        ):
            await subscriber.get_without_ack()


async def test_a_group_that_was_reset_begins_again_whatever_compaction_has_left() -> None:
    shop = Shop()
    notes = shop.notes()
    begun = await notes.begin({TOPIC: TopicNote(topic_id="a", starts={0: 5})})
    await notes.reached(begun, {Partition(TOPIC, 0): 9}, {TOPIC: "a"})
    await notes.forget([TOPIC])
    assert await notes.read() == {}
    await notes.begin({TOPIC: TopicNote(topic_id="a", starts={0: 7})})
    compacted(shop, "aq.__subscribers")
    (note,) = (await notes.read()).values()
    assert (note.starts, note.reached) == ({0: 7}, {})
    assert await shop.notes("other").read() == {}


async def test_of_two_notes_the_first_counts() -> None:
    shop = Shop()
    first = await shop.notes().begin({TOPIC: TopicNote(topic_id=None, starts={0: 1})})
    assert await shop.notes().begin({TOPIC: TopicNote(topic_id=None, starts={0: 2})}) == first
    compacted(shop, "aq.__subscribers")
    assert await shop.notes().read() == first


async def test_a_member_that_dies_as_it_begins_leaves_the_position_as_it_was_decided() -> None:
    shop = Shop()
    shop.publish(3)
    first = shop.notes()
    (one,) = (await first.begin({TOPIC: TopicNote(topic_id="id-1", starts={0: 3})})).values()
    # Another one had read the notes before; it dies once its own is written.
    late = shop.notes()
    await late._write({(TOPIC, "late"): {"token": "late", "topic_id": "id-1", "starts": {"0": 5}}})
    compacted(shop, "aq.__subscribers")
    assert await shop.notes().read() == {TOPIC: one}


def compacted(shop: Shop, topic: str) -> None:
    """Keep the last record of each key."""
    tp = Partition(topic, 0)
    last = {raw.key: raw.offset for _, raw in shop.kafka.records[tp]}
    shop.kafka.records[tp] = [
        one for one in shop.kafka.records[tp] if last[one[1].key] == one[1].offset
    ]
