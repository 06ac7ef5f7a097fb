"""The journal's agent: where a partition is assigned, no record between its rows and the first is missed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination.destination import Destination
from app.worker.destination.destinations import Destinations
from app.worker.destination.plan import Failover
from app.worker.process import journal_agent
from app.worker.process.journal_agent import Notices, catch_up, install
from connectors.errors import KafkaLost, TopicUnfit
from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry, decoded, encoded
from tables.journal_kind import Audience, Kind, StatePart
from tables.state.cursor import Claimed
from tables.state.journal.checkpoint import MemoryCheckpoint, records_of
from tables.state.journal.faust_checkpoint import FaustCheckpoint
from tables.state.journal.kinds import KINDS, Kinds
from tables.state.journal.state import cursor_key, fold
from tables.state.operator_requests import (
    SOURCE,
    Applied,
    Control,
    Current,
    DesiredState,
    SourceRequest,
    control_note,
    outcome_note,
    source_note,
)
from tables.state.quarantine import GIVE_UP, RESOLUTION, Resolution
from tables.state.quarantine import note_of as quarantine_note
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An operator's request in a record kind that the product does not have."""

    destination: str
    rows: int


@dataclass(slots=True)
class Limits:
    """The part of the state that it folds into."""

    all: list[Limit] = field(default_factory=list)

    def take(self, _kind: str, names: list[str], record: StoredRecord) -> None:
        assert names == ["rows per second"]
        self.all.append(limit_in(record))


def limit_in(record: StoredRecord) -> Limit:
    return Limit(**decoded(record))


LIMITS = StatePart(lambda _: Limits())
LIMIT = Kind(name="limit", part=LIMITS, notice=limit_in)
TWENTY = Limit(destination="shop", rows=20)
NOTE: Entry = LIMIT.key("shop", "rows per second"), encoded(asdict(TWENTY))


class Worker:
    """A worker with one destination, and its reading of the journal."""

    def __init__(self, kinds: Kinds = KINDS) -> None:
        settings = SimpleNamespace(
            destinations={"shop": None},
            worker=SimpleNamespace(id="w", advertised_address=""),
        )
        plan = SimpleNamespace(
            name="shop", sources=(), address=None, start=None, failover=Failover(), rules=None
        )
        self.destination = Destination(cast(Any, plan), MemoryCheckpoint())
        nobody: Any = None
        self.all = Destinations(
            cast(Any, settings),
            lambda *_: self.destination,
            load=nobody, plan=nobody, installation=nobody, append=nobody, known=nobody,
        )  # fmt: skip
        self.all.leadership = cast(Any, SimpleNamespace(wake=lambda: None))
        self.notices = Notices(self.all.notify, kinds)

    @property
    def signals(self) -> Any:
        return self.destination._signals

    def receives(self, note: Entry, offset: int = 9) -> None:
        self.notices.take(2, StoredRecord(*note, offset))

    def continues(self) -> bool:
        """Whether the destination's wait was ended."""
        return self.destination._signals.requests.called.is_set()


def test_a_kind_that_is_registered_is_folded_checkpointed_and_announced() -> None:
    kinds = Kinds((*KINDS, LIMIT))
    record = StoredRecord(*NOTE, 5)
    rows = MemoryCheckpoint()
    rows.fold(record)
    assert fold("shop", records_of("shop", rows.rows), kinds=kinds).parts[LIMITS].all == [TWENTY]
    assert fold("other", [record], kinds=kinds).parts[LIMITS].all == []
    worker = Worker(kinds)
    worker.receives(NOTE)
    assert worker.signals.latest(LIMIT) == TWENTY
    assert worker.continues()


def test_a_kind_that_is_not_registered_is_ignored() -> None:
    worker = Worker()
    worker.receives(NOTE)
    assert worker.signals.latest(LIMIT) is None
    assert not worker.continues()
    assert fold("shop", [StoredRecord(*NOTE, 5)]).parts[LIMITS].all == []


def test_a_notice_of_another_destination_reaches_none_here() -> None:
    worker = Worker(Kinds((*KINDS, LIMIT)))
    other = Limit(destination="other", rows=1)
    worker.receives((LIMIT.key("other", "rows per second"), encoded(asdict(other))))
    assert worker.signals.latest(LIMIT) is None


def test_a_resolution_is_kept_for_the_run_and_ends_what_is_waited_for() -> None:
    worker = Worker()
    resolution = Resolution(
        destination="shop", name=("d", "t"), id="r", table=None, by="me", ts_ms=1, source=GIVE_UP
    )
    worker.receives(quarantine_note(resolution))
    assert worker.signals.latest(RESOLUTION) == resolution
    assert worker.continues()


@pytest.mark.parametrize(("tried_ms", "ends"), [(6, True), (7, False)])
def test_a_wish_for_another_source_ends_what_is_waited_for_unless_it_was_tried(
    tried_ms: int, ends: bool
) -> None:
    worker = Worker()
    worker.signals.tried_ms = tried_ms
    desired = SourceRequest(destination="shop", id="i", address="h:1", by="me", ts_ms=7)
    worker.receives(source_note(desired))
    assert worker.signals.latest(SOURCE) == desired
    assert worker.continues() is ends


def test_which_source_is_read_notifies_nobody() -> None:
    worker = Worker()
    current = Current(destination="shop", address="h:1", server_uuid="s", why="w", ts_ms=1)
    worker.receives(source_note(current))
    assert worker.signals.latest(SOURCE) is None
    assert not worker.continues()


def test_a_cursor_of_a_greater_epoch_supersedes_who_leads() -> None:
    worker = Worker()
    worker.signals.epoch = 4
    claimed = asdict(Claimed(destination="shop", epoch=5))
    worker.receives((cursor_key("shop"), encoded(claimed)))
    assert worker.signals.superseded_by == 5
    assert not worker.continues()


def test_a_desired_state_reaches_the_worker_of_a_destination_that_it_has_not_too() -> None:
    worker = Worker()
    for name in ("shop", "new"):
        worker.receives(control_note(Control(destination=name, desired=DesiredState.PAUSE)))
    assert worker.destination.desired is DesiredState.PAUSE
    assert worker.all._controls["new"].desired is DesiredState.PAUSE


def test_an_outcome_reaches_this_workers_answers() -> None:
    worker = Worker()
    applied = Applied(
        destination="shop", worker="b", address="", request=5, state="RUNNING", error=None, epoch=1, ts_ms=1
    )  # fmt: skip
    worker.receives(outcome_note(applied))
    assert worker.all.answers._known["shop"].offset == 5


def test_a_worker_reacts_to_each_kind_that_is_for_it() -> None:
    for_workers = {kind for kind in KINDS if kind.audience is Audience.WORKER}
    assert set(Worker().all._reactions) == for_workers


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{ no JSON", "JournalUnreadable: "),
        (b'{"format": 2}', "JournalTooNew: "),
        (b'{"format": 1, "wish": "dance"}', "JournalUnreadable: "),
    ],
)
def test_a_record_that_cannot_be_read_is_logged_and_passed_by(
    value: bytes, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    with caplog.at_level(logging.ERROR):
        worker.receives((b"control/shop/wish", value), offset=77)
    (record,) = caplog.records
    assert says in record.getMessage()
    assert "partition=2" in record.getMessage()
    assert "offset=77" in record.getMessage()
    assert worker.destination.desired is DesiredState.RUN
