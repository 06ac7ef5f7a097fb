"""The overrides of the Faust app: partition assignment while brokers know only some topics, and seeks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.protocol.metadata import MetadataResponse_v1
from faust.tables.recovery import Recovery
from faust.types import TP

from app.worker.process import faust_app
from app.worker.process.faust_app import AqueductApp, Assignor
from tables.state.journal.faust_checkpoint import FaustCheckpoint

PARTITIONS = 4
JOURNAL = "aq.__journal"


def described(topics: list[str]) -> ClusterMetadata:
    """The answer of a broker that knows only these topics."""
    cluster = ClusterMetadata()
    partitions = [(0, number, 1, [1], [1]) for number in range(PARTITIONS)]
    brokers = [(1, "127.0.0.1", 9092, None)]
    cluster.update_metadata(
        MetadataResponse_v1(brokers, 1, [(0, topic, False, partitions) for topic in topics])
    )
    return cluster


@pytest.fixture
def assignor() -> Assignor:
    app = AqueductApp("aq.__worker", store="memory://", topic_partitions=PARTITIONS)
    FaustCheckpoint(app, partitions=PARTITIONS)
    app.finalize()
    assert not app.conf.topic_allow_declare, "Faust would make topics"
    assert isinstance(app.assignor, Assignor)
    return app.assignor


def given(assignor: Assignor, cluster: ClusterMetadata) -> Mapping[str, set[int]]:
    """The partitions that the only member of a group gets, by topic."""
    every = {JOURNAL, *changelogs()}
    answers = assignor.assign(cluster, {"one": assignor.metadata(every)})
    return {topic: set(partitions) for topic, partitions in answers["one"].assignment}


def changelogs() -> list[str]:
    return ["aq.__worker-checkpoint-changelog"]


@pytest.mark.parametrize("known", [[JOURNAL, *changelogs()], [JOURNAL], changelogs(), []])
def test_all_is_given_out_whatever_a_broker_reports(assignor: Assignor, known: list[str]) -> None:
    every = set(range(PARTITIONS))
    assert given(assignor, described(known)) == dict.fromkeys((JOURNAL, *changelogs()), every)


class FetchingThread:
    """Faust's consumer thread, which fetches from its own event loop: nothing else may seek beside it."""

    def __init__(self) -> None:
        self.sought: dict[TP, int] = {}
        self._is_inside = False

    async def call_thread(self, act: Callable[..., Any], *args: Any) -> Any:
        self._is_inside = True
        try:
            return act(*args)
        finally:
            self._is_inside = False

    def seek(self, tp: TP, offset: int) -> None:
        assert self._is_inside
        self.sought[tp] = offset

    async def seek_wait(self, partitions: dict[TP, int]) -> None:
        # As aiokafka's has it.
        if not all(isinstance(at, int) and at >= 0 for at in partitions.values()):
            raise ValueError("Offset must be a positive integer")
        self.sought |= partitions

    async def seek_to_committed(self) -> dict[TP, int]:
        return {UNREAD: 7, READ: 9}

    async def earliest_offsets(self, *partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 3)

    def assignment(self) -> set[TP]:
        return {UNREAD, READ}


UNREAD, READ = TP("journal", 0), TP("journal", 1)


async def test_a_partition_is_folded_from_its_beginning_by_the_thread_that_fetches_it() -> None:
    thread = FetchingThread()
    consumer = object.__new__(faust_app._OurConsumer)
    consumer._thread = thread
    consumer.app = SimpleNamespace(folded={"journal"}, folds_from_start=lambda number: number == 0)
    assert await consumer.seek_to_committed() == {UNREAD: 0, READ: 9}
    assert thread.sought == {UNREAD: 3}


async def test_a_partition_that_is_assigned_while_others_recover_does_not_end_the_process() -> None:
    thread = FetchingThread()
    consumer = object.__new__(faust_app._OurConsumer)
    consumer._thread = thread
    recovery = object.__new__(Recovery)
    # A rebalance has added the second one since the offsets were read.
    await recovery._seek_offsets(consumer, {UNREAD, READ}, {UNREAD: 4, READ: None}, "active")
    assert thread.sought == {UNREAD: 4}
