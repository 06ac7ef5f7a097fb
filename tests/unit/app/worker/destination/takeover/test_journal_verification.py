"""Journal verification: a destination's state must be whole, confirmed, and consistent with the topics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from app.worker.destination.takeover import journal_verification
from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.published_check import Published
from connectors.errors import ForeignInstallation, JournalDamaged, RunRestarts
from connectors.kafka.reading import StoredRecord
from connectors.kafka.topics import TopicPlan
from tables.journal_format import encoded
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.records import installation_key
from tables.state.journal.state import DestinationState, JournalPartition
from tests.unit.app.worker.destination.commit.made import BEFORE

JOURNAL = JournalPartition(destination="shop", topic="aq.__journal", number=0, options={})
EMPTY = MemoryCheckpoint()


class Topics:
    """The topics' contents, and the calls in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        self.written = 0
        self.fault: Exception | None = None
        monkeypatch.setattr(journal_verification, "end_of", self.end_of)
        monkeypatch.setattr(journal_verification, "read_first", self.read_first)
        monkeypatch.setattr(Published, "check", self.check)

    async def end_of(self, _options: object, topic: str, _partition: int) -> int:
        self.asked.append(topic)
        return self.written

    async def read_first(self, _options: object, topic: str, _partition: int, **_: Any) -> None:
        self.asked.append(topic)

    async def check(self, _state: DestinationState) -> None:
        self.asked.append("published")

    async def confirm(self, *, is_new: bool) -> None:
        self.asked.append(("confirmed", is_new))
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    return Topics(monkeypatch)


def state(**changes: Any) -> DestinationState:
    found = DestinationState("shop")
    found.cursor = replace(BEFORE, **changes)
    return found


async def test_a_state_that_is_not_whole_is_refused_before_anything_is_asked(
    topics: Topics,
) -> None:
    with pytest.raises(JournalDamaged, match="counts 2 table versions, 0 are in the journal"):
        await Verification(installation="i", confirm=topics.confirm).check(
            state(versions=2), JOURNAL, EMPTY
        )
    assert topics.asked == []


async def test_nothing_is_judged_before_the_installation_is_confirmed(topics: Topics) -> None:
    topics.fault = RunRestarts("as the journal is another's")
    for one in (state(installation="other"), DestinationState("shop")):
        with pytest.raises(RunRestarts):
            await Verification(installation="i", confirm=topics.confirm).check(one, JOURNAL, EMPTY)
    assert topics.asked == [("confirmed", False), ("confirmed", True)]


async def test_a_destination_without_a_cursor_must_have_published_nothing(topics: Topics) -> None:
    verification = Verification(installation="i")
    await verification.check(DestinationState("shop"), JOURNAL, EMPTY)
    assert topics.asked == ["aq.__transactions.shop", "aq.__ddl.shop", "aq.__schemas", "published"]
    topics.written = 1
    with pytest.raises(JournalDamaged, match=r"aq\.__transactions\.shop holds what was published"):
        await verification.check(DestinationState("shop"), JOURNAL, EMPTY)


@pytest.mark.remedy("ForeignInstallation")
async def test_the_cursor_of_another_installation_is_refused_until_each_has_a_prefix(
    topics: Topics,
) -> None:
    verification = Verification(installation="i")
    with pytest.raises(
        ForeignInstallation, match=r"it is of other, this is i.*a prefix of its own"
    ):
        await verification.check(state(installation="other"), JOURNAL, EMPTY)
    assert topics.asked == []
    # With a prefix of its own it has a journal of its own, and nothing of the other's is looked at.
    await verification.check(DestinationState("shop"), replace(JOURNAL, topic="b.__journal"), EMPTY)
    assert topics.asked == ["b.__transactions.shop", "b.__ddl.shop", "b.__schemas", "published"]


async def test_the_cursor_of_an_installation_that_the_tables_still_have_shows_a_cut_journal(
    topics: Topics,
) -> None:
    checkpoint = MemoryCheckpoint()
    for number, name in enumerate(("old", "i")):
        value = encoded({"installation": name, "worker": "w"})
        checkpoint.fold(StoredRecord(installation_key(name), value, 70 + number))
    check = partial(Verification(installation="i").check, journal=JOURNAL, checkpoint=checkpoint)
    await check(state(installation="i"))
    with pytest.raises(ForeignInstallation, match="it is of stranger, this is i"):
        await check(state(installation="stranger"))
    with pytest.raises(
        JournalDamaged, match=r"deleted, truncated, or recreated.*Restore it from a backup"
    ):
        await check(state(installation="old"))
    assert topics.asked == ["published"]


@pytest.mark.parametrize(("is_published", "asked"), [(True, ["published"]), (False, [])])
async def test_the_cursor_is_held_against_the_topics_unless_it_is_to_be_set(
    topics: Topics, is_published: bool, asked: list[str]
) -> None:
    await Verification(installation="i", is_published=is_published).check(state(), JOURNAL, EMPTY)
    assert topics.asked == asked


def test_a_destinations_partition_is_the_same_forever() -> None:
    plan = TopicPlan(
        name="aq.__journal", partitions=8, replication_factor=1, cleanup_policy="compact",
        retention_ms=-1, max_message_bytes=1_000_000,
    )  # fmt: skip
    found = JournalPartition.of("shop", plan, {})
    assert (found.topic, found.number, found.prefix) == ("aq.__journal", 2, "aq")
