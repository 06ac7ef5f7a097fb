"""The journal's agent: where a partition is assigned, no record between its rows and the first is missed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.process import journal_agent
from app.worker.process.journal_agent import catch_up, install
from connectors.errors import KafkaLost, TopicUnfit
from connectors.kafka.reading import StoredRecord
from tables.state.journal.faust_checkpoint import FaustCheckpoint
from tests.unit.tables.state.journal.faust_table import Table, checkpoint_of, kept
from tests.unit.tables.state.journal.test_rows import Written


def records() -> list[StoredRecord]:
    written = Written()
    for pos in (200, 300, 400):
        written.alter(pos)
    return written.journal.records


class Journal:
    """Its records, in pieces of two; each error is raised once, during one reading."""

    def __init__(self, records: list[StoredRecord], *errors: Exception) -> None:
        self.records, self.errors = records, list(errors)
        self.starts: list[int] = []

    async def pieces(self, partition: int, start: int) -> AsyncGenerator[list[StoredRecord]]:
        assert partition == 0
        self.starts.append(start)
        left = [one for one in self.records if one.offset >= start]
        for at in range(0, len(left), 2):
            yield left[at : at + 2]
            if self.errors:
                raise self.errors.pop()


def continued(table: Table) -> FaustCheckpoint:
    """Another worker's, to which the partition is assigned."""
    checkpoint = checkpoint_of(table.recovered(0, len(table.changelog)))
    checkpoint.begin(0)
    return checkpoint


class Stream:
    """What Faust passes on to the agent; before one of them, a partition is assigned again."""

    def __init__(
        self, passed: list[StoredRecord], checkpoint: FaustCheckpoint, *, again: int = -1
    ) -> None:
        self._passed, self._checkpoint, self._again = passed, checkpoint, again

    async def events(self) -> AsyncGenerator[Any]:
        for record in self._passed:
            if record.offset == self._again:
                self._checkpoint.begin(0)
            message = SimpleNamespace(
                partition=0, key=record.key, value=record.value, offset=record.offset
            )
            yield SimpleNamespace(message=message)


async def passed_on(stream: Stream, checkpoint: FaustCheckpoint, journal: Journal) -> None:
    """Run the agent as Faust does."""
    agents: list[Any] = []
    app: Any = SimpleNamespace(agent=lambda *_, **__: agents.append)
    install(app, SimpleNamespace(), checkpoint, journal.pieces)
    await agents[0](stream)


async def test_the_agent_reads_what_is_missing_once_for_each_assignment() -> None:
    everything, table = records(), Table()
    kept(table, everything[:3])
    checkpoint, journal = continued(table), Journal(everything)
    last = everything[-1].offset
    await passed_on(Stream(everything[6:], checkpoint, again=last), checkpoint, journal)
    assert checkpoint.rows == kept(Table(), everything).rows
    assert journal.starts == [everything[2].offset + 1]


async def test_the_agent_leaves_a_record_to_the_assignment_that_came_while_it_read_what_is_missing() -> (
    None
):
    everything = records()
    checkpoint = continued(Table())

    class Assigned(Journal):
        async def pieces(self, partition: int, start: int) -> AsyncGenerator[list[StoredRecord]]:
            assert partition == 0
            yield [one for one in self.records if one.offset >= start][:3]
            checkpoint.begin(0)

    last = everything[-1]
    await passed_on(Stream([last], checkpoint), checkpoint, Assigned(everything))
    assert checkpoint.next_offset(0) == everything[2].offset + 1


@pytest.mark.parametrize("folded", [0, 3, 6])
async def test_records_whose_rows_were_lost_are_folded_before_the_first_that_faust_passes_on(
    folded: int,
) -> None:
    everything, table = records(), Table()
    kept(table, everything[:folded])
    checkpoint, last = continued(table), everything[-1]
    journal = Journal(everything)
    await catch_up(checkpoint, journal.pieces, 0, upto=last.offset)
    start = everything[folded - 1].offset + 1 if folded else 0
    assert journal.starts == [start]
    checkpoint.fold(last, 0)
    assert checkpoint.rows == kept(Table(), everything).rows
    await catch_up(checkpoint, journal.pieces, 0, upto=last.offset + 1)
    assert journal.starts == [start], "there is nothing to read"


async def test_a_partition_that_is_assigned_again_meanwhile_is_left_to_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = records()
    checkpoint = continued(Table())
    fold = checkpoint.fold

    def folded(record: StoredRecord, partition: int) -> None:
        fold(record, partition)
        if record.offset == 2:
            checkpoint.begin(0)

    monkeypatch.setattr(checkpoint, "fold", folded)
    await catch_up(checkpoint, Journal(everything).pieces, 0, upto=everything[-1].offset)
    assert checkpoint.next_offset(0) == 3


async def test_it_waits_while_kafka_does_not_answer_and_raises_what_does_not_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_agent, "_AGAIN_SECONDS", 0.0)
    everything = records()
    checkpoint = continued(Table())
    journal = Journal(everything, KafkaLost("no broker"), KafkaLost("no broker"))
    await catch_up(checkpoint, journal.pieces, 0, upto=everything[-1].offset)
    assert journal.starts == [0, *(everything[at].offset + 1 for at in (1, 3))]
    assert checkpoint.next_offset(0) == everything[-2].offset + 1
    with pytest.raises(TopicUnfit):
        await catch_up(
            continued(Table()), Journal(everything, TopicUnfit("truncated")).pieces, 0, upto=7
        )
