"""The committed state, read while a run continues to write the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from app.worker.destination.takeover import recovery
from app.worker.destination.takeover.recovery import (
    committed_history,
    earlier_requests,
    whole_state,
)
from connectors.errors import JournalDamaged, KafkaLost
from connectors.kafka.reading import StoredRecord
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState, partition_of
from tables.state.operator_requests import Control, DesiredState, control_note
from tests.unit.tables.state.test_history_retention import Kept


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_PAUSE_SECONDS", 0)


class ExpiringJournal:
    """A journal whose run expires checkpoints between two passes over it."""

    destination = "shop"
    topic = "aqueduct.journal"

    def __init__(self, kept: Kept, *ages: int) -> None:
        self.kept = kept
        self.ages = list(ages)
        self.passes = 0

    async def fold_into(self, state: DestinationState, start: int) -> None:
        self.passes += 1
        for record in self.kept.written.records[start:]:
            state.apply(record)
        if self.ages:
            self.kept.commit(self.kept.expired(self.ages.pop(0)).entries)


def test_a_history_that_expires_between_two_passes_is_read_again() -> None:
    # The first pass keeps the content of checkpoint 1; 2 and 3 are gone before the next two begin.
    kept = Kept()
    kept.commit(kept.expired(600).entries)
    journal = ExpiringJournal(kept, 300)
    history = asyncio.run(committed_history(cast(Any, journal)))
    assert history.checkpoints[0].number == 3
    assert history.count == 9


def test_a_history_of_which_a_record_is_missing_is_damaged() -> None:
    kept = Kept(count=8)
    missing = kept.written.records.pop(-2)
    assert missing.key.startswith(b"history/")
    journal = ExpiringJournal(kept)
    with pytest.raises(JournalDamaged, match="8 records"):
        asyncio.run(whole_state(cast(Any, journal)))
    assert journal.passes > 1


PARTITIONS = 2
PAUSE, RUN, STOP, DELETE = (
    DesiredState.PAUSE, DesiredState.RUN, DesiredState.STOP, DesiredState.DELETE,
)  # fmt: skip


class Journal:
    """A journal and the rows folded from it."""

    def __init__(self) -> None:
        self.partitions: list[list[StoredRecord]] = [[] for _ in range(PARTITIONS)]
        self.checkpoint = MemoryCheckpoint()
        self.reads: list[tuple[int, int]] = []
        self.lost = False

    def add(self, name: str, desired: DesiredState, *, folded: bool) -> None:
        key, value = control_note(Control(destination=name, desired=desired))
        self.append(partition_of(name, PARTITIONS), key, value or b"", folded=folded)

    def append(self, partition: int, key: bytes, value: bytes, *, folded: bool) -> None:
        records = self.partitions[partition]
        records.append(StoredRecord(key, value, len(records)))
        if folded:
            self.checkpoint.fold(records[-1])

    async def read(
        self, partition: int, start: int, take: Callable[[StoredRecord], object]
    ) -> None:
        if self.lost:
            raise KafkaLost("no broker answers")
        self.reads.append((partition, start))
        for record in self.partitions[partition][start:]:
            take(record)

    async def known(self) -> dict[str, DesiredState]:
        found = await earlier_requests(self.checkpoint, partitions=PARTITIONS, read=self.read)
        return {one.destination: one.desired for one in found}


@pytest.mark.parametrize("rest", [PAUSE, STOP, DELETE])
async def test_a_destination_at_rest_is_released_by_a_later_request_in_the_journal(
    rest: DesiredState,
) -> None:
    journal = Journal()
    journal.add("shop", rest, folded=True)
    assert await journal.known() == {"shop": rest}
    journal.add("shop", RUN, folded=False)
    assert await journal.known() == {"shop": RUN}
    journal.add("shop", rest, folded=False)
    assert await journal.known() == {"shop": rest}


async def test_a_row_that_is_missing_below_the_newest_one_is_found() -> None:
    journal = Journal()
    journal.add("shop", PAUSE, folded=True)
    journal.add("shop", RUN, folded=False)
    journal.append(partition_of("shop", PARTITIONS), b"cursor/other", b"{}", folded=True)
    assert await journal.known() == {"shop": RUN}


async def test_each_partition_is_read_once_and_only_for_destinations_at_rest() -> None:
    names = [f"d{number}" for number in range(20)]
    here = [name for name in names if partition_of(name, PARTITIONS) == 1]
    there = [name for name in names if partition_of(name, PARTITIONS) == 0]
    journal = Journal()
    for name in (*here[:3], *there[:2]):
        journal.add(name, RUN, folded=True)
    assert await journal.known() == dict.fromkeys((*here[:3], *there[:2]), RUN)
    assert journal.reads == []
    for name in here[:3]:
        journal.add(name, STOP, folded=True)
    # Requests for destinations that run are left to their runs.
    journal.add(there[0], PAUSE, folded=False)
    journal.add(here[1], RUN, folded=False)
    assert await journal.known() == {
        here[0]: STOP, here[1]: RUN, here[2]: STOP, there[0]: RUN, there[1]: RUN,
    }  # fmt: skip
    assert journal.reads == [(1, 4)]


async def test_what_cannot_be_read_is_an_error_and_no_request() -> None:
    journal = Journal()
    journal.add("shop", STOP, folded=True)
    key, _ = control_note(Control(destination="shop"))
    journal.append(partition_of("shop", PARTITIONS), key, b"{}", folded=False)
    with pytest.raises(JournalDamaged):
        await journal.known()
    journal.lost = True
    with pytest.raises(KafkaLost):
        await journal.known()
