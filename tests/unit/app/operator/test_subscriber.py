"""`subscriber`: which topics of a group are those of tables, wherever a destination has its row topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.operator import subscriber
from app.settings.model import Settings
from connectors.kafka.group_positions import GroupState, Offsets
from connectors.kafka.reading import StoredRecord
from tests.unit.app.settings.test_model import GOOD

STATED, OWN, TAGGED = "inv_shop.trade.orders", "aq.trade.orders", "aq.__tag.vip.trade.orders"
OTHERS = ("aq.__ddl.shop", "elsewhere", "aq.eu.trade.orders")
"""Topics of no table, and of another installation."""
BILLING: Offsets = {(topic, 0): 7 for topic in (STATED, OWN, TAGGED, *OTHERS)}


@pytest.fixture(autouse=True)
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """A group with offsets, of which some are deleted; a table version names a topic outside the prefix."""
    found: list[tuple[str, int]] = []
    versions = [{"destination": "shop", "topic": STATED}]
    topics = [*(topic for topic, _ in BILLING), "aq.__schemas", "aq.eu.__journal"]

    async def read_all(_options: Any, _wanted: Any, take: Callable[..., None]) -> None:
        for at, version in enumerate(versions):
            take("aq.__schemas", 0, StoredRecord(b"k", json.dumps(version).encode(), at))
        take("aq.__schemas", 0, StoredRecord(b"k", b"", len(versions)))

    async def delete(_options: Any, _group: str, partitions: Collection[tuple[str, int]]) -> None:
        found.extend(partitions)

    state = GroupState(name="billing", state="Empty", members=())
    notes = SimpleNamespace(read=returning({}), forget=returning(None))
    for name, value in {
        "group_names": returning(["billing"]),
        "group_offsets": returning(BILLING),
        "group_state": returning(state),
        "refuse_active": returning(None),
        "delete_offsets": delete,
        "read_all": read_all,
        "Topics": lambda _: SimpleNamespace(counts=returning(dict.fromkeys(topics, 1))),
        "notes_of": lambda *_: notes,
    }.items():
        monkeypatch.setattr(subscriber, name, value)
    return found


def returning(value: Any) -> Any:
    async def call(*_: Any, **__: Any) -> Any:
        return value

    return call


def settings() -> Settings:
    return Settings.model_validate(yaml.safe_load(GOOD))


async def test_a_topic_outside_the_prefix_that_a_table_version_names_is_listed() -> None:
    (listed,) = await subscriber.list_groups(settings())
    assert listed["topics"] == sorted([STATED, OWN, TAGGED])
    known = await subscriber.offsets_of(settings(), "billing")
    assert {topic for topic, _ in known} == {STATED, OWN, TAGGED}


@pytest.mark.parametrize("topic", [STATED, "elsewhere"])
async def test_a_topic_that_is_named_is_reset_wherever_it_is(
    deleted: list[tuple[str, int]], topic: str
) -> None:
    moves = await subscriber.plan_reset(settings(), "billing", topic=topic)
    assert [(one.topic, one.before, one.after) for one in moves] == [(topic, 7, None)]
    await subscriber.make_move(settings(), "billing", moves)
    assert deleted == [(topic, 0)]


async def test_without_a_name_the_topics_of_tables_are_reset_and_no_others(
    deleted: list[tuple[str, int]],
) -> None:
    moves = await subscriber.plan_reset(settings(), "billing")
    await subscriber.make_move(settings(), "billing", moves)
    assert sorted(deleted) == sorted((topic, 0) for topic in (STATED, OWN, TAGGED))
