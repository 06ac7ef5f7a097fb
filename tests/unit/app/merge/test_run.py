"""The cursors after each commit of a merge, and the shards that stall at its start."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.coordination.write_permit import WritePermit
from app.merge.ordering import Held, Lane
from app.merge.plan import MergeStatus
from app.merge.run import MergeRun
from app.merge.shares import Share, Shares
from connectors.kafka.producer import TransactionalProducer
from tables.merge_cursor import MergeCursor
from tests.unit.app.merge.test_shares import PLAN

TOPIC = "aq.__shard.a.trade"


class FakeProducer:
    async def learn(self, _topics: set[str]) -> None:
        """As the real one."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> MergeRun:
    async def installation() -> str:
        return "i"

    found = MergeRun(
        plan=PLAN,
        status=MergeStatus(PLAN),
        permit=WritePermit(),
        installation=installation,
        succeeded=lambda: None,
    )

    async def commit(*_: object) -> None:
        """Nothing is sent."""

    monkeypatch.setattr(MergeRun, "_commit", commit)
    return found


def publish(run: MergeRun, shares: Any, partition: int, offset: int) -> None:
    lane = shares.by_partition[TOPIC, partition].lane
    held = Held(1, 0.0, offset, b"{}", b"{}", [])
    part = [(("aq.trade", partition), lane, held)]
    producer = cast(TransactionalProducer, FakeProducer())
    asyncio.run(run._publish(producer, cast(Shares, shares), part))


def test_a_cursor_keeps_the_offsets_of_partitions_without_a_new_record(run: MergeRun) -> None:
    shares = SimpleNamespace(
        by_partition={
            (TOPIC, one): Share(lane=Lane("a"), merged=("aq.trade", one)) for one in range(3)
        }
    )
    run._cursors.by_topic[TOPIC] = MergeCursor(
        merge=PLAN.unit, topic=TOPIC, offsets={"0": 5, "1": 9}, ts_ms=1
    )
    publish(run, shares, 0, 6)
    assert run._cursors.by_topic[TOPIC].offsets == {"0": 7, "1": 9}
    publish(run, shares, 2, 3)
    assert run._cursors.by_topic[TOPIC].offsets == {"0": 7, "1": 9, "2": 4}
    assert run.status.shards["a"].records == 2


def test_a_shard_stalls_only_once_it_has_had_time_to_show_itself(run: MergeRun) -> None:
    shares: Any = SimpleNamespace(marks={"b": int(time.time() * 1000)})
    assert run._stalled(shares) == frozenset()
    run._since -= PLAN.stalled_after + 1
    assert run._stalled(shares) == {"a"}
    shares.marks["b"] -= 1000 * (PLAN.stalled_after + 1)
    assert run._stalled(shares) == {"a", "b"}
