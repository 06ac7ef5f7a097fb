"""The requests that a starting worker knows: Faust's rows, and what the journal has after them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.worker.destination.takeover.earlier_requests import earlier_requests
from connectors.errors import JournalDamaged, KafkaLost
from connectors.kafka.reading import StoredRecord
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import partition_of
from tables.state.operator_requests import Control, DesiredState, control_note

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
