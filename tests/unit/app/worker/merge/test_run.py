"""Runs of a merge: what is read and published in turns, sizes after failures, and the shards that stall."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.coordination.write_permit import WritePermit
from app.worker.merge import run as module
from app.worker.merge.ordering import Lane, PartitionOrder
from app.worker.merge.plan import MergePlan, MergeStatus
from app.worker.merge.publishing import MergePublisher
from app.worker.merge.released import ReleasedRecord
from app.worker.merge.run import MergeRun
from app.worker.merge.shares import Share, Shares
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.status import State
from app.worker.unit.takeover import UnitTakeover
from connectors.errors import (
    AqueductError,
    JournalUnreadable,
    KafkaDenied,
    KafkaSlow,
    RecordsGone,
    RecordTooLarge,
    RunRestarts,
    TooFewBrokers,
    TopicReplaced,
    TopicUnfit,
)
from connectors.kafka.reading import Partition, StoredRecord
from tables.journal_format import encoded
from tables.state.journal.state import DestinationState, fold
from tables.state.known_topics import TOPIC as TOPIC_KIND
from tables.state.known_topics import KnownTopic
from tables.state.known_topics import note_of as topic_note
from tables.state.merge_cursor import MergeCursor, MergeCursors
from tables.state.merge_cursor import note_of as merge_note
from tests.unit.app.worker.merge.test_shares import PLAN

TOPIC, MERGED = "aq.__shard.a.trade", ("aq.trade", 0)
KNOWN = KnownTopic(destination=PLAN.unit, topic=MERGED[0], id="i", ts_ms=1)


class Ended(Exception):
    """Nothing more is to be read."""


class FakeShares:
    """One lane, to which each read adds records."""

    def __init__(self, *reads: list[bytes]) -> None:
        self.lane = Lane("a")
        self.by_partition = {(TOPIC, 0): Share(lane=self.lane, merged=MERGED)}
        self.orders = {MERGED: PartitionOrder([self.lane], wait=0.0)}
        self.marks = SimpleNamespace(newest={"a": int(time.time() * 1000)})
        self.marks_away: dict[str, AqueductError] = {}
        self.unread_offsets = {"a": 7, "b": 0}
        self.blocked: set[Partition] = set()
        self.reads = list(reads)
        self.looks = 0
        self.fault: Exception | None = None

    async def look(self) -> None:
        self.looks += 1
        if self.fault is not None:
            raise self.fault

    async def read(self, _seconds: float) -> None:
        if not self.reads:
            raise Ended
        for at, value in enumerate(self.reads.pop(0)):
            self.lane.add(1, 0.0, at, b"", value, [])

    async def confirm(self) -> None:
        """Nothing is waited for."""

    def complete_absent(self) -> None:
        """Each shard has its topic."""


class FakePublisher:
    """Takes note of what is published, and of how much is held at each time."""

    def __init__(self, status: MergeStatus) -> None:
        self.parts: list[list[bytes | None]] = []
        self.held: list[tuple[int, int | None]] = []
        self._status = status

    async def publish(self, _shares: Shares, part: list[ReleasedRecord]) -> None:
        shown = self._status.shards["a"]
        self.held.append((shown.held, shown.unread))
        self.parts.append([one.held.value for one in part])


@pytest.fixture
def run() -> MergeRun:
    async def installation() -> str:
        return "i"

    return MergeRun(
        plan=PLAN,
        status=MergeStatus(PLAN),
        permit=WritePermit(),
        installation=installation,
        takeover=cast(UnitTakeover, None),
        budget=Budget(64),
        succeeded=lambda: None,
    )


async def merged(run: MergeRun, shares: FakeShares) -> FakePublisher:
    publisher = FakePublisher(run.status)
    watched = asyncio.get_running_loop().create_future()
    with pytest.raises(Ended):
        await run._merge(cast(MergePublisher, publisher), cast(Shares, shares), watched)
    return publisher


async def test_nothing_more_is_read_before_what_was_released_is_published(run: MergeRun) -> None:
    shares = FakeShares([b"x" * 20] * 7, [b"y"])
    found = await merged(run, shares)
    assert found.parts == [[b"x" * 20] * 3, [b"x" * 20] * 3, [b"x" * 20], [b"y"]]
    # What was released counts as held until it is published; topics are looked for meanwhile.
    assert found.held == [(7, 7), (4, 7), (1, 7), (1, 7)]
    assert shares.looks == 5
    assert (run.status.shards["a"].records, run.status.state) == (8, State.RUNNING)


async def test_a_record_that_is_larger_than_a_transaction_is_published_alone(run: MergeRun) -> None:
    found = await merged(run, FakeShares([b"a" * 9, b"b" * 500, b"c" * 9]))
    assert [len(part) for part in found.parts] == [1, 1, 1]


async def test_a_run_is_shown_as_running_once_it_has_read_something(run: MergeRun) -> None:
    run.status.show(State.FAILED, "TopicUnfit")
    run.status.shards["a"].held = 5
    run.status.begin()
    assert (run.status.shards["a"].held, run.status.shards["a"].unread) == (0, None)
    shares = FakeShares()
    shares.fault = TopicUnfit("x")
    with pytest.raises(TopicUnfit):
        await run._merge(
            cast(MergePublisher, None),
            cast(Shares, shares),
            asyncio.get_running_loop().create_future(),
        )
    assert run.status.state is State.FAILED
    run.status.wait_only_for({"aq.trade": "TooFewBrokers"})
    run.status.show(State.RETRYING, "KafkaLost")
    assert run.status.to_json()["waiting"] == {"aq.trade": "TooFewBrokers"}
    run.status.show(State.STANDBY)
    assert run.status.to_json()["waiting"] == {}
    run.status.show(State.FAILED, "TopicUnfit")
    assert run.status.to_json()["shards"]["a"]["unread"] is None


async def test_a_transaction_that_was_too_slow_is_tried_again_at_half_its_size(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.budget = Budget(1 << 20)
    factors: list[float] = []

    class Producer:
        def __init__(self, *_: object, timeout_factor: float, **__: object) -> None:
            factors.append(timeout_factor)

        async def discard(self) -> None:
            """It was never started."""

    class Slow:
        async def take_id(self, *_: Any) -> None:
            raise KafkaSlow("10 s were not enough")

    monkeypatch.setattr(module, "TransactionalProducer", Producer)
    run.takeover = cast(UnitTakeover, Slow())
    for _ in range(2):
        with pytest.raises(KafkaSlow):
            await run.run()
    assert (factors, run.budget.bytes) == ([1.0, 2.0], 1 << 18)


async def test_a_run_claims_the_merge_once_it_has_read_the_journal_as_the_owner_of_its_id(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Takeover:
        async def take_id(self, *_: object) -> None:
            steps.append("id taken")

        async def claim(self, *_: object) -> None:
            steps.append("claimed")
            raise Ended

    async def state(_: object) -> DestinationState:
        steps.append("journal read")
        return DestinationState(PLAN.unit)

    monkeypatch.setattr(module, "committed_state", state)
    run.takeover = cast(UnitTakeover, Takeover())
    with pytest.raises(Ended):
        await run.run()
    assert steps == ["id taken", "journal read", "claimed"]


def test_a_shard_stalls_only_once_it_has_had_time_to_show_itself(run: MergeRun) -> None:
    newest = {"b": int(time.time() * 1000)}
    shares: Any = SimpleNamespace(marks=SimpleNamespace(newest=newest), marks_away={})
    assert run._stalled(shares) == frozenset()
    run._since -= PLAN.stalled_after + 1
    assert run._stalled(shares) == {"a"}
    shares.marks.newest["b"] -= 1000 * (PLAN.stalled_after + 1)
    assert run._stalled(shares) == {"a", "b"}


def test_a_shard_whose_progress_cannot_be_read_stalls_with_the_reason(
    run: MergeRun, caplog: pytest.LogCaptureFixture
) -> None:
    newest = {one: int(time.time() * 1000) for one in PLAN.destinations}
    denied = KafkaDenied("the account may not read it", topic="aq.__progress.b")
    shares: Any = SimpleNamespace(marks=SimpleNamespace(newest=newest), marks_away={"b": denied})

    def trouble() -> dict[str, str | None]:
        run._stalled(shares)
        return {name: one["trouble"] for name, one in run.status.to_json()["shards"].items()}

    # The marks are as they were for some seconds.
    assert trouble() == {"a": None, "b": None}
    newest["b"] -= 1000 * int(PLAN.stalled_after + 1)
    assert trouble()["a"] is None
    assert "topic=aq.__progress.b" in str(trouble()["b"])
    assert [one.message.count("aq.__progress.b") for one in caplog.records] == [1]
    shares.marks_away = {}
    assert trouble() == {"a": None, "b": None}
    assert "See why: python -m app destination list" in caplog.records[-1].message


async def test_a_merged_topic_that_is_made_again_waits_from_the_next_run_on(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watched.set_exception(TopicReplaced("aq.trade"))
    with pytest.raises(RunRestarts, match=r"made again: aq\.trade"):
        await run._merge(cast(MergePublisher, None), cast(Shares, FakeShares()), watched)

    async def journal(_partition: object) -> DestinationState:
        return DestinationState("merge.trade")

    monkeypatch.setattr(module, "committed_state", journal)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    faults: list[AqueductError] = [
        TopicReplaced("aq.trade"), KafkaDenied("no"), TopicUnfit("small"), TooFewBrokers("no leader"),
    ]  # fmt: skip

    class Refusing:
        ids = SimpleNamespace(known={})

        async def unusable(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
            return {name: faults.pop(0) for name in counts if faults}

    publisher = cast(MergePublisher, Refusing())
    for name in ("TopicReplaced", "KafkaDenied", "TopicUnfit", "TooFewBrokers"):
        found = await run._unfit(publisher, {"aq.trade": 2})
        assert found["aq.trade"].startswith(name)
        run.status.wait_only_for(found)
        assert run.status.to_json()["waiting"] == found
    assert await run._unfit(publisher, {"aq.trade": 2}) == {}
    run.status.wait_only_for({})
    assert run.status.to_json()["waiting"] == {}


async def test_records_that_are_deleted_while_a_run_lasts_are_a_matter_of_the_next_one(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_run: MergeRun) -> None:
        raise RecordsGone("aq.__shard.a.trade [0] has no offset 3")

    monkeypatch.setattr(MergeRun, "_run", gone)
    with pytest.raises(
        RunRestarts, match=r"deleted before they were merged: aq\.__shard\.a\.trade"
    ):
        await run.run()


async def test_a_topic_that_waits_on_does_not_keep_another_one_from_coming_back(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []

    async def journal(partition: object) -> DestinationState:
        looks.append(partition)
        return DestinationState("merge.trade")

    monkeypatch.setattr(module, "committed_state", journal)
    offline = {"aq.a", "aq.b"}
    asked: list[set[str]] = []

    class Refusing:
        ids = SimpleNamespace(known={})

        async def unusable(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
            asked.append({*counts})
            return {one: TooFewBrokers("no leader", topic=one) for one in offline & counts.keys()}

    publisher = cast(MergePublisher, Refusing())

    async def look() -> set[str]:
        run.status.wait_only_for(await run._unfit(publisher, {"aq.a": 2, "aq.b": 2, "aq.c": 2}))
        return {*run.status.waiting}

    assert await look() == {"aq.a", "aq.b"}
    offline.remove("aq.b")
    assert await look() == {"aq.a", "aq.b"}, "each is looked at every few seconds"
    run._retry_at = dict.fromkeys(run._retry_at, 0.0)
    assert await look() == {"aq.a"}
    assert len(looks) == 1, "the journal is read once for all"
    assert asked == [{"aq.a", "aq.b", "aq.c"}, {"aq.c"}, {"aq.a", "aq.b", "aq.c"}], "all at once"


async def test_if_the_account_may_not_connect_the_topics_that_are_read_are_merged_on(
    run: MergeRun,
) -> None:
    class Refusing:
        async def unusable(self, _counts: object) -> dict[str, AqueductError]:
            raise KafkaDenied("the password is another one")

    found = await run._unfit(cast(MergePublisher, Refusing()), {"aq.a": 2, "aq.b": 2})
    assert found.keys() == {"aq.a", "aq.b"}
    assert all(why.startswith("KafkaDenied") for why in found.values())


async def test_nothing_is_released_of_a_partition_of_which_a_share_cannot_be_read(
    run: MergeRun,
) -> None:
    shares = FakeShares([b"x"], [b"y"])
    shares.blocked = {MERGED}
    assert (await merged(run, shares)).parts == []
    assert run.status.shards["a"].held == 2


class Refused:
    """A publisher whose brokers refuse the records of one topic."""

    ids = SimpleNamespace(known={})

    def __init__(self) -> None:
        self.refused: dict[str, AqueductError] = {
            "aq.trade": RecordTooLarge("5000 bytes", topic="aq.trade")
        }
        self.settings: str | None = "as they were"
        """The digest of each topic's settings; None if they may not be read."""

    @property
    def topics(self) -> Any:
        return self

    async def digests(self, topics: Iterable[str]) -> dict[str, str]:
        return {} if self.settings is None else dict.fromkeys(topics, self.settings)

    async def publish(self, *_: object) -> None:
        raise RecordTooLarge("5000 bytes")

    async def unusable(self, _counts: object) -> dict[str, AqueductError]:
        """They are there, and fit."""
        return {}


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    async def journal(_partition: object) -> DestinationState:
        return DestinationState("merge.trade")

    monkeypatch.setattr(module, "committed_state", journal)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    return Refused()


async def refuses(run: MergeRun, publisher: Refused) -> None:
    """Let the run end by a record that is refused."""
    watched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    given = cast(MergePublisher, publisher)
    await run._merge(given, cast(Shares, FakeShares([b"x"])), watched)


async def test_a_merged_topic_that_refuses_records_waits_until_it_is_altered(
    run: MergeRun, refused: Refused
) -> None:
    publisher = cast(MergePublisher, refused)
    with pytest.raises(RunRestarts, match=r"records of aq\.trade were refused"):
        await refuses(run, refused)
    assert run.status.to_json()["waiting"]["aq.trade"].startswith("RecordTooLarge")
    for _ in range(2):
        found = await run._unfit(publisher, {"aq.trade": 2})
        assert found["aq.trade"].startswith("RecordTooLarge")
    # A look at its shares that found another reason does not change what is known of it.
    run.status.wait_only_for({})
    assert await run._unfit(publisher, {"aq.trade": 2, "aq.other": 2}) == found
    refused.settings = "altered"
    assert await run._unfit(publisher, {"aq.trade": 2}) == {}
    # A record of no merged topic.
    refused.refused.clear()
    with pytest.raises(RecordTooLarge):
        await refuses(run, refused)


@pytest.mark.parametrize("then", [None, "x"])
async def test_a_merged_topic_is_tried_again_at_intervals_if_its_settings_may_not_be_read(
    run: MergeRun, refused: Refused, then: str | None
) -> None:
    publisher = cast(MergePublisher, refused)
    refused.settings = then
    with pytest.raises(RunRestarts):
        await refuses(run, refused)
    refused.settings = None
    (why,) = (await run._unfit(publisher, {"aq.trade": 2})).values()
    assert why.startswith("RecordTooLarge"), "not at once: each attempt ends a run"
    known = run.status.refused["aq.trade"]
    run.status.refused["aq.trade"] = known._replace(at=known.at - 61)
    assert await run._unfit(publisher, {"aq.trade": 2}) == {}
    with pytest.raises(RunRestarts):
        await refuses(run, refused)
    assert run.status.refused["aq.trade"].at > known.at
    # They may be read from now on.
    refused.settings = "x"
    assert await run._unfit(publisher, {"aq.trade": 2}) == {}


CURSOR = MergeCursor(merge=PLAN.unit, topic=TOPIC, offsets={"0": 3}, ts_ms=1)
UNREADABLE = {
    "a cursor that is none": (merge_note(CURSOR)[0], b"junk"),
    "a cursor of a newer version": (merge_note(CURSOR)[0], b'{"format":2}'),
    "a cursor of another form": (
        merge_note(CURSOR)[0],
        encoded({"merge": PLAN.unit, "topic": TOPIC, "offsets": "x", "ts_ms": 1}),
    ),
    "the id of a merged topic": (TOPIC_KIND.key(PLAN.unit, MERGED[0]), b"junk"),
}


@pytest.mark.remedy("JournalUnreadable")
@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_record_of_the_journal_that_cannot_be_read_stops_its_merged_topic_alone(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    key, value = UNREADABLE[kind]
    records = [StoredRecord(key, value, 0)]

    async def journal(_partition: object) -> DestinationState:
        return fold(PLAN.unit, records)

    monkeypatch.setattr(module, "committed_state", journal)

    class Sound:
        topics = SimpleNamespace()
        ids = SimpleNamespace(known={})

        async def unusable(self, _counts: object) -> dict[str, AqueductError]:
            """They can be written to."""
            return {}

    publisher = cast(MergePublisher, Sound())
    await run._read_journal()
    for _ in range(2):
        found = await run._unfit(publisher, {"aq.other": 1, "aq.trade": 1})
        assert found.keys() == {"aq.trade"}
        assert "python -m app journal repair merge.trade --why TEXT" in found["aq.trade"]
        run.status.wait_only_for(found)
    # What the command writes: the record before it.
    records.append(StoredRecord(*merge_note(CURSOR), 1))
    records.append(StoredRecord(*topic_note(KNOWN), 2))
    with pytest.raises(RunRestarts, match="can be read again"):
        await run._unfit(publisher, {"aq.trade": 1})
    await run._read_journal()
    assert await run._unfit(publisher, {"aq.trade": 1}) == {}


async def test_an_unreadable_record_of_no_merged_topic_concerns_the_whole_merge(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def journal(_partition: object) -> DestinationState:
        return fold(PLAN.unit, [StoredRecord(f"leader/{PLAN.unit}/claim".encode(), b"junk", 0)])

    monkeypatch.setattr(module, "committed_state", journal)
    run.takeover = cast(UnitTakeover, SimpleNamespace(take_id=lambda *_: journal(None)))
    with pytest.raises(JournalUnreadable):
        await run.run()


async def test_what_removed_destinations_left_is_looked_for_at_the_start_and_until_nothing_is_left(
    run: MergeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [{"aq.trade": "MergeUnfinished: so"}, {}]
    cursors = MergeCursors()

    async def look(plan: MergePlan, given: MergeCursors) -> dict[str, str]:
        assert (plan, given) == (PLAN, cursors)
        return looks.pop(0)

    monkeypatch.setattr(module, "left_unmerged", look)
    for _ in range(2):
        assert await run._unmerged(cursors) == {"aq.trade": "MergeUnfinished: so"}
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    for _ in range(2):
        assert await run._unmerged(cursors) == {}
