"""Topics that are made again while a run writes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

import pytest

from app.worker.pipeline.publish.topic_ids import TopicIds
from connectors.errors import KafkaLost, RunRestarts, TopicReplaced

JOURNAL, ORDERS = "aq.__journal", "aq.shop.orders"


class Brokers:
    """Answers to one request after the other; the last one is repeated."""

    def __init__(self, *answers: dict[str, str] | Exception) -> None:
        self.answers = list(answers)

    async def ids(self, names: Collection[str]) -> dict[str, str]:
        """The next answer."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {name: one for name, one in answer.items() if name in names}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two looks."""
    for name in ("_LOOK_SECONDS", "_AGAIN_SECONDS"):
        monkeypatch.setattr(f"app.worker.pipeline.publish.topic_ids.{name}", 0.0)


def ids(brokers: Brokers, **known: str) -> TopicIds:
    names = {f"aq.shop.{name}": one for name, one in known.items()}
    return TopicIds(
        destination="shop", topics=cast(Any, brokers), reread=JOURNAL, known=names,
        tables=lambda: {ORDERS: ["shop.my orders"]},
    )  # fmt: skip


async def test_a_topic_is_noted_once_and_compared_with_what_was_noted() -> None:
    brokers = Brokers({ORDERS: "1", JOURNAL: "9"})
    one = ids(brokers)
    noted = await one.confirm([ORDERS, JOURNAL])
    assert [key for key, _ in noted] == [b"topic/shop/aq.shop.orders"]
    brokers.answers = [KafkaLost()]
    assert await one.confirm([]) == await one.confirm([ORDERS]) == []
    assert await ids(Brokers({ORDERS: "1"}), orders="1").confirm([ORDERS]) == []
    # Brokers that report no ids, or do not know the topic yet.
    assert await ids(Brokers({}), orders="1").confirm([ORDERS]) == []


async def test_a_broker_that_lags_is_asked_again() -> None:
    stale, now = {ORDERS: "old"}, {ORDERS: "1"}
    assert await ids(Brokers(stale, now), orders="1").confirm([ORDERS]) == []
    with pytest.raises(TopicReplaced, match=r"aq\.shop\.orders \(shop\.my orders\)"):
        await ids(Brokers(stale), orders="1").confirm([ORDERS])
    with pytest.raises(TopicReplaced, match=r"snapshot start shop 'shop\.my orders'\."):
        await ids(Brokers(stale), orders="1").confirm([ORDERS])


async def test_a_run_ends_once_two_looks_find_a_topic_made_again() -> None:
    first = {ORDERS: "1", JOURNAL: "9"}
    one = ids(Brokers(first, {ORDERS: "2"}, first, KafkaLost(), {}, {ORDERS: "2"}))
    await one.confirm([ORDERS, JOURNAL])
    async with asyncio.timeout(10):
        with pytest.raises(TopicReplaced):
            await one.watch()
    assert len(cast(Any, one.topics).answers) == 1
    one = ids(Brokers(first, {JOURNAL: "10"}))
    await one.confirm([ORDERS, JOURNAL])
    async with asyncio.timeout(10):
        with pytest.raises(RunRestarts, match=r"aq\.__journal was deleted and made again"):
            await one.watch()


async def test_an_error_names_some_topics_and_accepts_all() -> None:
    many = {f"t{number:02}": str(number) for number in range(30)}
    one = TopicIds(
        destination="shop",
        topics=cast(Any, Brokers(many)),
        reread=JOURNAL,
        known=dict.fromkeys(many, "old"),
    )
    with pytest.raises(TopicReplaced, match=r"t19; and 10 more.*accept-topic shop --all"):
        await one.confirm(many.keys())


async def test_recreated_topics_are_named_each_by_itself_and_the_others_are_noted() -> None:
    many = {f"aq.shop.{name}": "1" for name in ("a", "b", "c", "d")}
    one = ids(Brokers(many), a="old", b="old", c="1")
    notes, replaced = await one.confirm_each(many.keys())
    assert [key for key, _ in notes] == [b"topic/shop/aq.shop.d"]
    assert replaced.keys() == {"aq.shop.a", "aq.shop.b"}
    for name, error in replaced.items():
        assert f"made again: {name} [" in str(error)
        assert f"accept-topic shop {name} --why" in str(error)
    # Those that were confirmed are not compared again, and the others are.
    cast(Any, one.topics).answers = [{"aq.shop.a": "old", "aq.shop.b": "1", "aq.shop.c": "9"}]
    notes, replaced = await one.confirm_each(many.keys())
    assert notes == []
    assert replaced.keys() == {"aq.shop.b"}
