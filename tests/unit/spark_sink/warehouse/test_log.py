"""The sink's own log: what is recorded stays, whatever is compacted, killed or written meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest

from spark_sink.errors import ForeignWarehouse, LogDamaged
from spark_sink.warehouse.ledger import Entry, Floor, Source
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.log_fold import EarlierTables
from spark_sink.warehouse.milestone_recorder import MilestoneRecorder
from spark_sink.warehouse.milestones import Batch, Milestone
from spark_sink.warehouse.moves import Event
from spark_sink.warehouse.waiting_tables import folded
from tests.harness.memory_warehouse import MemoryNotes, MemoryWarehouse, memory_log

MOMENT = 1_000_000
"""ms, between two batches."""


class Killed(Exception):
    """In place of a kill."""


class Shared(MemoryNotes):
    """Texts of several processes, one of which may be killed at a write."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        """Writes and removals until the kill."""
        self.between: Callable[[], None] = lambda: None
        """Called before each write, and each removal."""

    def _act(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= 1
        act, self.between = self.between, lambda: None
        act()

    def write(self, name: str, text: str) -> None:
        self._act()
        super().write(name, text)

    def remove(self, name: str) -> None:
        self._act()
        super().remove(name)


def process(notes: MemoryNotes, **options: Any) -> SinkLog:
    return SinkLog(notes=notes, where="/wh/__log", **{"every": 4, "keep_seconds": 8000, **options})


def entry(batch: int, topic: str, partition: int = 0, **more: Any) -> Entry:
    given: dict[str, Any] = {"query_id": "q", "batch_id": batch, "records": 10, **more}
    return Entry(
        **{
            "topic": topic,
            "partition": partition,
            "from_offset": batch * 10,
            "until_offset": batch * 10 + 10,
            "applied_at_ms": MOMENT * (batch + 1),
            **given,
        }
    )


def floor(seq: int, table: str = "t") -> Floor:
    source = Source("d", "s", table)
    return Floor(database="s", table=table, source=source, epoch=1, seq=seq, ts_ms=seq)


def event(seq: int) -> Event:
    return Event(destination="d", epoch=1, seq=seq, ts_ms=seq, moves={("s", f"t{seq}"): None})


class Sink:
    """A sink that records at random, by the milestones that it links."""

    def __init__(self, notes: Shared, model: SinkLog, name: str, chance: random.Random) -> None:
        self.notes, self.model, self.name, self.chance = notes, model, name, chance
        self.milestone = Milestone(reached={}, versions={}, sink=name)
        self.superseded: set[tuple[int, int]] = set()
        self.start()

    def start(self) -> None:
        """A new process of it."""
        self.log = process(self.notes)
        self.log.make()
        self.recorder = MilestoneRecorder(MemoryWarehouse(), sink=self.name)

    def record(self, number: int) -> tuple[str, tuple[Any, ...]]:
        """The method and arguments of what it records next."""
        pick = self.chance.randrange
        match pick(10):
            case 0:
                return "void", ([f"{self.name}{pick(2)}", f"ddl.{self.name}"],)
            case 1:
                return "add_floors", ([floor(number, self.name), floor(pick(9), self.name)],)
            case 2:
                return "add_ddl", ([event(number)], {(f"ddl.{self.name}", 0): number})
            case 3:
                return "done", ({"d": (1, pick(number + 1))},)
            case 4:
                gone = [*self.model.ddl().events.values()][: pick(2)]
                self.superseded.update(one.place for one in gone)
                return "superseded", (gone,)
            case 5:
                row = {"number": number, "at_ms": MOMENT * number, "since_ms": number}
                named = {"database": "s", "table": self.name, "kind": "waiting", "offsets": "[]"}
                texts = dict.fromkeys(("error", "reason", "action"), "") | {
                    "request": '{"number":""}'
                }
                return "wait", ({**row, **named, **texts},)
            case 6:
                load = f"{self.name}{pick(9)}"
                return "place", (load, {"number": load})
        versions = {**self.milestone.versions, ("s", f"{self.name}{pick(9)}"): number}
        self.milestone = replace(self.milestone, versions=versions)
        text = self.recorder.text(self.milestone)
        self.recorder.stored(self.milestone)
        topic, applied = f"{self.name}{pick(2)}", self.model.applied()
        parts = [
            entry(number, topic, n, from_offset=applied.get((topic, n), 0))
            for n in range(1 + pick(2))
        ]
        return "append", ([replace(parts[0], milestone=text), *parts[1:]],)


def seen(log: SinkLog, superseded: Collection[tuple[int, int]] = ()) -> dict[str, Any]:
    """All that a log has: of batches the recent ones, and no statements that were superseded."""
    found = log.batches()
    newest = max((one.at_ms for one in found), default=0)
    recent = [described(one) for one in found if one.at_ms >= newest - 8_000_000 and one.query_id]
    tables, _ = folded(log.rows())
    history = log.ddl()
    events = [one for one in history.ordered() if one.place not in superseded]
    return {
        "applied": log.applied(),
        "newest": log.newest_ms(),
        "last": log.last(),
        "of sinks": log.last_of_sinks(),
        "batches": recent,
        "floors": sorted(log.floors(), key=str),
        "ddl": (events, history.done, log.ddl_read()),
        "waits": tables,
        "loads": sorted(log.placed(), key=str),
    }


def described(batch: Batch) -> Any:
    reached = {at: until for at, until in batch.until.items() if until}
    return batch.at_ms, reached, batch.milestone


@pytest.mark.parametrize("seed", range(8))
def test_two_sinks_that_are_killed_at_any_write_keep_all_that_they_recorded(seed: int) -> None:
    chance, notes, model = random.Random(seed), Shared(), memory_log(every=10**9)
    sinks = [Sink(notes, model, name, chance) for name in "ab"]

    def seen_of(log: SinkLog) -> dict[str, Any]:
        # One that another process was folding meanwhile may be there again, and changes nothing.
        return seen(log, sinks[0].superseded | sinks[1].superseded)

    for number in range(1, 120):
        sink, other = chance.sample(sinks, 2)
        method, given = sink.record(number)
        if chance.random() < 0.2:
            # While it writes or compacts, the other one does.
            beside = "add_floors", ([floor(number, "beside")],)
            notes.between = lambda log=other.log, one=beside: getattr(log, one[0])(*one[1])  # type: ignore[misc]
            model.add_floors([floor(number, "beside")])
        notes.left = chance.choice((-1, -1, -1, 0, 1, 2, 3))
        before = seen_of(model)
        getattr(model, method)(*given)
        try:
            getattr(sink.log, method)(*given)
        except Killed:
            notes.left, notes.between = -1, lambda: None
            sink.start()
            model.add_floors([floor(number, "beside")])
            sink.log.add_floors([floor(number, "beside")])
            now = seen_of(process(notes))
            if now != seen_of(model):
                # It was killed before it was recorded, and does it again.
                assert now == {**before, "floors": now["floors"]}
                getattr(sink.log, method)(*given)
        notes.left, notes.between = -1, lambda: None
        assert seen_of(process(notes)) == seen_of(model)
    assert seen_of(sinks[0].log) == seen_of(sinks[1].log) == seen_of(model)
    assert len(notes.names("__log")) < 20


def test_older_batches_are_read_for_the_retention_and_then_removed() -> None:
    notes = MemoryNotes()
    log, recorder = process(notes, every=3), MilestoneRecorder(MemoryWarehouse())
    log.make()
    stated = []
    for number in range(30):
        milestone = Milestone(reached={}, versions={("s", f"t{n}"): n for n in range(number)})
        log.append([replace(entry(number, "a"), milestone=recorder.text(milestone))])
        recorder.stored(milestone)
        stated.append(milestone)
    found = process(notes).batches()
    assert [one.milestone for one in found[-9:]] == stated[-9:]
    assert [one.until["a", 0] for one in found[-9:]] == [10 * n + 10 for n in range(21, 30)]
    assert len(found) < 16
    log.void(["a"])
    log.append([entry(40, "b")])
    for _ in range(2):
        again = process(notes)
        assert again.applied() == {("b", 0): 410}
        assert all(not one.until.get(("a", 0)) for one in again.batches())
        log.compact()


def test_what_a_clock_that_was_set_back_records_is_after_what_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes, now = MemoryNotes(), [10**18]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    log = process(notes)
    log.make()
    log.add_ddl([event(1)], {})
    now[0] -= 10**15
    again = process(notes)
    again.superseded([event(1)])
    assert process(notes).ddl().events == {}
    assert log.ddl().events == {}


def test_a_new_log_is_none_until_all_has_been_held_that_a_lost_one_had() -> None:
    notes = MemoryNotes()
    for _ in range(2):
        log = process(notes)
        assert log.make() is False
        # Killed before all tables wait.
        log.wait({"number": 1, "at_ms": 1, "kind": "waiting", "database": "s", "table": "t"})
    log.begun()
    assert process(notes).make()


@pytest.mark.remedy("sink.LogDamaged")
def test_a_file_that_is_missing_or_damaged_is_an_error_and_a_damaged_last_one_is_not() -> None:
    notes = MemoryNotes()
    log = process(notes, every=100)
    log.make()
    for seq in range(1, 6):
        log.add_floors([floor(seq)])
    names = notes.names("__log")
    kept = {name: notes.read(f"__log/{name}") or "" for name in names}
    notes.remove(f"__log/{names[2]}")
    with pytest.raises(LogDamaged, match=rf"/wh/__log: {names[2]}, which {names[3]} follows, is"):
        process(notes).floors()
    for text in ("", kept[names[2]][:-5]):
        notes.write(f"__log/{names[2]}", text)
        with pytest.raises(LogDamaged, match=rf"{names[2]} is damaged"):
            process(notes).floors()
    # A whole copy is put back.
    notes.write(f"__log/{names[2]}", kept[names[2]])
    assert process(notes).floors() == [floor(5)]
    # A power loss.
    for name in names[-2:]:
        notes.write(f"__log/{name}", "")
    again = process(notes)
    assert again.floors() == [floor(3)]
    again.add_floors([floor(7)])
    assert process(notes).floors() == [floor(7)]
    # Also of a compaction: what it would have replaced is still there.
    again.compact()
    again.add_floors([floor(8)])
    again.compact()
    notes.write(f"__log/{notes.names('__log')[-1]}", "")
    assert process(notes).floors() == [floor(8)]
    # Or all are damaged.
    for name in notes.names("__log"):
        notes.write(f"__log/{name}", "")
    with pytest.raises(LogDamaged, match="is damaged"):
        process(notes).floors()
    # Or the folder is removed, and the sink begins without one.
    for name in notes.names("__log"):
        notes.remove(f"__log/{name}")
    assert process(notes).make() is False


def test_a_reader_that_has_listed_files_that_are_compacted_then_reads_what_replaces_them() -> None:
    notes = Shared()
    log = process(notes, every=100)
    log.make()
    for seq in range(5):
        log.add_floors([floor(seq)])
    reader, read = process(notes), MemoryNotes.read

    def late(self: MemoryNotes, name: str) -> str | None:
        if log.every == 100:
            log.every = 1
            log.compact()
        return read(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryNotes, "read", late)
        assert reader.floors() == [floor(4)]


def test_files_that_a_compaction_has_replaced_are_not_read_and_go_with_the_next_one() -> None:
    notes = Shared()
    log = process(notes, every=100)
    log.make()
    for seq in range(9):
        log.add_floors([floor(seq)])
    log.compact()
    log.add_floors([floor(9)])
    assert len(notes.names("__log")) == 11
    reader, plain, read = process(notes), MemoryNotes.read, list[str]()

    def noted(self: MemoryNotes, name: str) -> str | None:
        read.append(name)
        return plain(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryNotes, "read", noted)
        assert reader.floors() == [floor(9)]
        reader.add_floors([floor(10)])
        log.add_floors([floor(11)])
        assert reader.floors() == [floor(11)]
    assert len(read) == 3
    log.compact()
    assert len(notes.names("__log")) == 5
    assert process(notes).floors() == reader.floors() == [floor(11)]


def test_what_a_later_version_has_written_is_not_skipped() -> None:
    body = {"version": 1, "after": "", "replaces": [], "records": [{"kind": "dream"}]}
    for given, named in ((body, "of the kind dream"), ({"version": 2}, "of version 2")):
        notes = MemoryNotes()
        notes.write("__log/1-a.json", json.dumps(given))
        with pytest.raises(ForeignWarehouse, match=named):
            process(notes).applied()


class Earlier(EarlierTables):
    """The tables of an earlier version."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        self.left = -1

    def version(self, name: str) -> str:
        return self.tables[name][0] if name in self.tables else ""

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.tables[name][1]

    def remove(self, name: str) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1
        del self.tables[name]

    def fill(self, until: int) -> None:
        """What the earlier version has after a batch."""
        shared = {"query_id": "q", "batch_id": until, "applied_at_ms": until * MOMENT, "records": 1}
        place = {"topic": "a", "partition": 0, "from_offset": 0, "until_offset": until}
        wait = {"number": 1, "at_ms": until, "since_ms": until, "kind": "waiting", "database": "s"}
        names = "topic", "partition", "until_offset", "destination", "epoch", "seq", "ts_ms", "body"
        event = dict.fromkeys(names) | {"destination": "d", "epoch": 1, "seq": until}
        text = Event(destination="d", epoch=1, seq=until, ts_ms=0).text()
        self.tables = {
            "__ledger": (f"l{until}", [{**shared, **place, "milestone": None}]),
            "__floors": (
                f"f{until}",
                [
                    {"database": "s", "table": "t", "destination": "d", "epoch": 1, "seq": until}
                    | {"ts_ms": 0}
                ],
            ),
            "__ddl": (
                f"d{until}",
                [
                    {**event, "kind": "event", "ts_ms": 0, "body": text},
                    {**event, "kind": "done"},
                    {**event, **place, "kind": "read", "epoch": None, "seq": None},
                ],
            ),
            "__waits": (
                f"w{until}",
                [
                    {**wait, "table": "t", "error": f"after {until}", "reason": "", "action": ""}
                    | {"offsets": "[]", "request": '{"number": ""}'}
                ],
            ),
        }


def test_the_tables_of_an_earlier_version_are_taken_over_once_also_if_it_is_run_again() -> None:
    notes, earlier = MemoryNotes(), Earlier()
    earlier.fill(5)
    reader = process(notes, earlier=earlier)

    def check(log: SinkLog, until: int) -> None:
        assert log.applied() == {("a", 0): until}
        assert [one.place for one in log.floors()] == [(1, until)]
        history = log.ddl()
        assert ({at[1][1] for at in history.events | history.alters}, history.done) == (
            {5, until},
            {"d": (1, until)},
        )
        assert log.ddl_read() == {("a", 0): until}
        tables, _ = folded(log.rows())
        assert tables["s", "t"].error == f"after {until}"

    check(reader, 5)
    assert notes.names("__log") == []
    earlier.left = 2
    with pytest.raises(Killed):
        process(notes, earlier=earlier).make()
    earlier.left = -1
    assert set(earlier.tables) == {"__ddl", "__waits"}
    log = process(notes, earlier=earlier)
    assert log.make()
    assert earlier.tables == {}
    check(log, 5)
    check(reader, 5)
    # The earlier version, which knows nothing of the log, begins again.
    earlier.fill(7)
    check(reader, 5)
    assert process(notes, earlier=earlier).make()
    check(process(notes), 7)
