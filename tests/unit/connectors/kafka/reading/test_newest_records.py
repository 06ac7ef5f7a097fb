"""The newest records of partitions: which of them can be asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.kafka.reading import partition_reader as module

COPIES = {
    "whole": (1, [1, 2]),
    "short": (1, [1]),
    "headless": (-1, [2]),
}
"""Topics of one partition with two copies: its leader, and the copies in sync."""


class FakeConsumer:
    """Partitions that have three records each; one without a leader is never answered for."""

    def __init__(self) -> None:
        found = {
            name: {0: SimpleNamespace(leader=leader, replicas=[1, 2], isr=synced)}
            for name, (leader, synced) in COPIES.items()
        }

        async def fetched() -> Any:
            return SimpleNamespace(
                _partitions=found, partitions_for_topic=lambda name: found.get(name)
            )

        self._client = SimpleNamespace(fetch_all_metadata=fetched)

    async def beginning_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert "headless" not in {tp.topic for tp in asked}
        return dict.fromkeys(asked, 0)


async def test_topics_that_cannot_be_relied_on_are_omitted_and_asked_for_only_if_a_copy_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ends(_: object, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(asked, 3)

    monkeypatch.setattr(module, "_ends", ends)
    consumer, asked = cast(AIOKafkaConsumer, FakeConsumer()), list[list[str]]()

    async def away(topics: list[str]) -> set[str]:
        asked.append(topics)
        return {"headless"}

    found = await module._spans({}, consumer, ["headless", "none", "short", "whole"], None, away)
    assert found == {TopicPartition(name, 0): (0, 3) for name in ("short", "whole")}
    assert asked == [["headless", "short"]]
    assert await module._spans({}, consumer, ["whole"], None, away) == {
        TopicPartition("whole", 0): (0, 3)
    }
    assert len(asked) == 1
