"""A merged topic is compared once it has what the destination has published."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest

from app.audit.topics.topics import Claims
from app.operator.validation.errors import PublishingStalled
from app.operator.validation.folded_topic import FoldedTopic
from app.operator.validation.topic_pass import Goals, wait_for_merge
from connectors.kafka.reading import StoredRecord
from tests.unit.app.operator.validation.records import NAME, images, record

PARTITIONS = [("aq.t", 0), ("aq.t", 1)]


class Merge:
    """The twin of a Follower: at each read the merge has copied one record more."""

    def __init__(self, *records: tuple[int, StoredRecord]) -> None:
        self.waiting = list(records)

    async def read(self, _seconds: float, *, most: int, only: Any) -> dict[Any, list[Any]]:  # noqa: ARG002
        if not self.waiting:
            return {}
        part, one = self.waiting.pop(0)
        return {PARTITIONS[part]: [one]}


@pytest.fixture
def folded() -> Iterator[FoldedTopic]:
    topic = FoldedTopic("shop", {NAME: images()}, Claims(None, Counter()))
    yield topic
    topic.close()


async def wait(folded: FoldedTopic, merge: Merge, goals: Goals, *, seconds: float = 60.0) -> None:
    async def newest() -> Goals:
        return goals

    await wait_for_merge(
        folded,
        cast(Any, merge),
        PARTITIONS,
        newest=newest,
        take=lambda partition, one: folded.take(partition[1], one),
        stalled_seconds=seconds,
    )


async def test_each_partition_is_read_until_it_has_the_shares_last_record(
    folded: FoldedTopic,
) -> None:
    merge = Merge(
        (0, record(1, "a", at=0, seq=4)),
        # The last one may be of a table that is not compared.
        (1, record(1, "a", at=0, seq=6, table=("shop", "other"))),
        (0, record(1, "b", at=1, seq=5)),
        (1, record(2, "a", at=1, seq=7)),
    )
    await wait(folded, merge, {0: (1, 5), 1: (1, 6)})
    assert len(merge.waiting) == 1
    assert folded.reached == {0: (1, 5), 1: (1, 6)}
    await wait(folded, merge, {0: (1, 5)})
    assert len(merge.waiting) == 1


async def test_an_earlier_epoch_is_no_goal_that_is_missed(folded: FoldedTopic) -> None:
    folded.take(0, record(1, "a", at=0, seq=3, epoch=2))
    await wait(folded, Merge(), {0: (1, 9)})


async def test_a_merge_that_copies_nothing_of_the_destination_is_an_error(
    folded: FoldedTopic,
) -> None:
    class Others(Merge):
        async def read(self, _seconds: float, *, most: int, only: Any) -> dict[Any, list[Any]]:  # noqa: ARG002
            await asyncio.sleep(0)
            return {PARTITIONS[0]: [record(1, "a", at=0, seq=99, destination="b")]}

    with pytest.raises(PublishingStalled, match=r"aq\.t \[0\] ends before seq 5") as error:
        async with asyncio.timeout(30):
            await wait(folded, Others(), {0: (1, 5)}, seconds=1.0)
    assert error.value.context["destination"] == "shop"
