"""The newest records of partitions: which of them can be asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.kafka.reading import Follower, _spans

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

        async def known(topic: str) -> None:
            assert topic != "headless"

        self._client = SimpleNamespace(
            fetch_all_metadata=fetched, add_topic=lambda _: None, _wait_on_metadata=known
        )

    async def beginning_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert "headless" not in {tp.topic for tp in asked}
        return dict.fromkeys(asked, 0)

    async def end_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(asked, 3)

    async def offsets_for_times(
        self, asked: dict[TopicPartition, int]
    ) -> dict[TopicPartition, Any]:
        """Only ``whole`` has a record since then."""
        return {
            tp: SimpleNamespace(offset=2) if (tp.topic, since) == ("whole", 1000) else None
            for tp, since in asked.items()
        }


def follower() -> Follower:
    consumer = cast(AIOKafkaConsumer, FakeConsumer())

    async def connect(_isolation: str) -> AIOKafkaConsumer:
        return consumer

    return Follower({}, connect)


async def test_topics_that_cannot_be_relied_on_are_omitted_and_asked_for_only_if_a_copy_is_away() -> (
    None
):
    asked = list[list[str]]()

    async def away(topics: list[str]) -> set[str]:
        asked.append(topics)
        return {"headless"}

    every = ["headless", "none", "short", "whole"]
    found = await _spans(follower(), every, None, away)
    assert found == {(name, 0): (0, 3) for name in ("short", "whole")}
    assert asked == [["headless", "short"]]
    assert await _spans(follower(), ["whole"], None, away) == {("whole", 0): (0, 3)}
    assert len(asked) == 1


async def test_a_partition_without_a_record_since_a_time_is_omitted() -> None:
    assert await _spans(follower(), ["short", "whole"], 1000, None) == {("whole", 0): (2, 3)}
