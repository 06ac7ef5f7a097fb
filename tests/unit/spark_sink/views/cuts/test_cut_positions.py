"""The chosen positions and base, for transactions that offsets divide in every way, without Spark."""

from __future__ import annotations

import datetime
import functools
import json
from dataclasses import replace
from typing import Any

import pytest

from spark_sink.errors import CutAmbiguous
from spark_sink.source.positions import Offsets
from spark_sink.views.cuts import cut_positions
from spark_sink.views.cuts.cut_positions import (
    Change,
    Evidence,
    Run,
    Time,
    Transaction,
    _ends_at,
    base,
    bounded,
    moment,
    newest,
    timed,
    unfinished,
)
from spark_sink.warehouse.coverage import Cut, Marker, Wholeness, reaches
from spark_sink.warehouse.milestones import Batch, Milestone, Position, later
from tests.unit.spark_sink.views.cuts.bank import MARKERS, TABLES, Bank

Record = dict[str, Any]


def position(record: Record) -> Position:
    body = record["body"]
    source = body["source"]
    return Position(source["epoch"], source["seq"], source["ts_ms"], body["transaction"]["id"])


body_of = functools.cache(json.loads)


def parsed(bank: Bank, start: Offsets, end: Offsets) -> list[Record]:
    found: list[Record] = [
        {**one, "body": body_of(str(one["value"])), "at": (one["topic"], one["partition"])}
        for one in bank.records(start, end)
    ]
    return found


def runs_of(records: list[Record], whole: Offsets) -> list[Run]:
    """What `transactions.runs` finds."""
    found: list[Run] = []
    for record in sorted(
        (one for one in records if one["at"] != MARKERS), key=lambda one: position(one)
    ):
        place, is_seen = position(record), record["offset"] < whole.get(record["at"], 0)
        if found and found[-1].last.transaction == place.transaction:
            held = found.pop()
            first, starts, is_seen = held.first, held.starts, held.is_seen or is_seen
        else:
            first, starts = place, record["body"]["transaction"]["total_order"] == 1
        existed = record["body"]["op"] == "r"
        found.append(
            Run(
                destination="shop",
                first=first,
                last=place,
                starts=starts,
                is_seen=is_seen,
                existed=existed,
            )
        )
    return timed(found)


class Sink:
    """The offsets that a sink stores and merges, and what it learns of them."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.wholeness = Wholeness()
        self.since: dict[tuple[str, int], int] = {}
        self.until: dict[tuple[str, int], int] = {}
        self.merged: dict[tuple[str, int], int] = {}
        self.whole: Offsets | None = None
        self.settled: Offsets = {}
        self.begun: list[Marker] = []
        self.batches = [
            Batch(at_ms=0, query_id="q", until={}, milestone=Milestone(reached={}, versions={}))
        ]

    def store(self) -> None:
        until = self.bank.ends()
        self.wholeness.seen(until, self.bank.reach())
        self.whole, self.until = self.wholeness.covered(until), until
        if self.whole is not None and reaches(self.whole, self.merged):
            self.settled = dict(self.merged)
        if self.bank.random.random() < 0.3:
            self.since = dict(self.settled)

    def restart(self) -> None:
        """Begins the recent changes again, at what is merged."""
        self.since = dict(self.merged)
        end = self.bank.shown[MARKERS]
        last = self.bank.last_values({MARKERS: end})
        self.begun = [Marker(one) for one in last if not json.loads(one)["last"]]
        self.since[MARKERS] = end
        self.wholeness, self.whole = Wholeness(), None
        if self.bank.random.random() < 0.5:
            # The process was killed; what it finds in the tables has no transaction.
            last_batch = self.batches[-1]
            assert last_batch.milestone is not None
            reached = {
                name: replace(one, transaction="")
                for name, one in last_batch.milestone.reached.items()
            }
            unnamed = replace(last_batch.milestone, reached=reached)
            self.batches[-1] = replace(last_batch, milestone=unnamed)
        self.store()

    def merge(self, *, everything: bool = False) -> None:
        rows = {at: end for at, end in self.until.items() if at != MARKERS}
        until = {
            at: end if everything else self.bank.random.randint(self.merged.get(at, 0), end)
            for at, end in rows.items()
        }
        reached = dict(self.batches[-1].milestone.reached)  # type: ignore[union-attr]
        for record in parsed(self.bank, self.merged, until):
            reached = later(reached, {"shop": position(record)})
        self.merged = until
        milestone = Milestone(reached=reached, versions={})
        self.batches.append(
            Batch(at_ms=len(self.batches), query_id="q", until=until, milestone=milestone)
        )

    def evidence(self) -> Evidence | None:
        if self.whole is None:
            return None
        records = parsed(self.bank, self.since, self.until)
        markers = self.begun + [
            Marker(one["value"], MARKERS[0], MARKERS[1], one["offset"])
            for one in records
            if one["at"] == MARKERS
        ]
        rows = {at: first for at, first in self.since.items() if at != MARKERS}
        return Evidence(
            batches=self.batches,
            coverage=Cut(since=rows, until=self.until, at_ms=0, whole=self.whole),
            runs=runs_of(records, self.whole),
            unfinished=unfinished(markers, self.whole),
        )

    def check(self, positions: dict[str, Position]) -> bool:
        """Proves that a cut is one, if it has a base: whole transactions, all held, nothing after them."""
        top = positions.get("shop", cut_positions.NOTHING)
        batch = base(self.batches, positions, self.since_of_rows())
        if batch is None:
            return False
        assert top.seq in self.bank.states, "the end of a transaction"
        assert batch.milestone is not None
        assert batch.milestone.reached.get("shop", cut_positions.NOTHING) <= top
        everything = {at: len(log) for at, log in self.bank.logs.items()}
        for record in parsed(self.bank, {}, everything):
            at = record["at"]
            if at == MARKERS or position(record) > top:
                continue
            is_merged = record["offset"] < batch.until.get(at, 0)
            is_recent = self.since.get(at, 0) <= record["offset"] < self.until.get(at, 0)
            assert is_merged or is_recent, record
        return True

    def check_at(self, evidence: Evidence, tops: dict[str, Position], seq: int) -> None:
        """Proves that a cut at a place is after the last transaction up to there."""

        def is_after(_: str, one: Position) -> bool:
            return one.seq > seq

        exact = bounded(evidence, tops, is_after)
        if exact is None or base(self.batches, exact, self.since_of_rows(), is_after) is None:
            return
        assert self.check(exact)
        wanted = max(end for end in self.bank.states if end <= seq)
        assert exact.get("shop", cut_positions.NOTHING).seq == wanted

    def since_of_rows(self) -> dict[tuple[str, int], int]:
        return {at: first for at, first in self.since.items() if at != MARKERS}


def played(seed: int) -> tuple[int, bool]:
    """Drives a sink at random; returns how often there was a cut, and whether the last has everything."""
    bank = Bank(seed)
    sink = Sink(bank)
    cuts, newest_of_all = 0, False
    for _ in range(40):
        for _ in range(bank.random.randint(0, 2)):
            bank.transfer(parts=bank.random.choice((1, 1, 1, 2, 3)))
        if bank.random.random() < 0.3:
            bank.read(bank.random.choice(TABLES))
        for _ in range(bank.random.randint(0, 6)):
            bank.move()
        bank.random.choice((sink.store, sink.store, sink.store, sink.merge, sink.restart))()
        evidence = sink.evidence()
        positions = newest(evidence) if evidence is not None else None
        if positions is None or evidence is None:
            continue
        cuts += sink.check(positions)
        for seq in bank.random.sample(sorted(bank.states), min(4, len(bank.states))):
            top = positions.get("shop", cut_positions.NOTHING).seq
            sink.check_at(evidence, positions, min(seq, top))
    bank.settle()
    sink.store()
    sink.merge(everything=True)
    sink.store()
    evidence = sink.evidence()
    assert evidence is not None
    positions = newest(evidence)
    if positions is not None:
        newest_of_all = sink.check(positions) and positions["shop"].seq == max(bank.states)
    return cuts, newest_of_all


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_divides_no_transaction_however_offsets_do(seed: int) -> None:
    cuts, _ = played(seed)
    assert cuts > 3


def test_once_all_is_visible_the_cut_is_after_the_newest_transaction() -> None:
    assert all(played(seed)[1] for seed in range(8))


def test_a_cut_at_a_time_has_no_later_commit_though_one_before_it_has_an_earlier_time() -> None:
    """As after a backlog: the times of commits do not grow."""
    times = {1: 100, 2: 900, 3: 200, 4: 950, 5: 150}
    changes = {seq: Position(1, seq, ms, f"u:{seq}") for seq, ms in times.items()}
    found = timed(
        Run(destination="shop", first=one, last=one, starts=True, is_seen=True)
        for one in changes.values()
    )
    assert [run.last.ts_ms for run in found] == [100, 900, 900, 950, 950]
    reached: dict[str, Position] = {}
    batches = [Batch(at_ms=0, query_id="q", until={}, milestone=Milestone(reached={}, versions={}))]
    for number, change in enumerate(changes.values(), start=1):
        reached = later(reached, {"shop": change})
        milestone = Milestone(reached=reached, versions={}, is_whole=True)
        until = {("a", 0): number}
        batches.append(Batch(at_ms=number, query_id="q", until=until, milestone=milestone))
    wanted = {50: 0, 100: 1, 500: 1, 899: 1, 900: 3, 949: 3, 950: 5}
    for ms, seq in wanted.items():
        tops = {"shop": changes[5]}
        evidence = Evidence(batches=batches, coverage=Cut(since={}, until={}, at_ms=0), runs=found)

        def is_after(_: str, one: Position, ms: int = ms) -> bool:
            return one.ts_ms > ms

        cut = bounded(evidence, tops, is_after)
        assert cut is not None
        assert cut["shop"].seq == seq
        whole = [one for one in batches if one.milestone and _ends_at(one.milestone, Time(ms))]
        assert whole[-1].until.get(("a", 0), 0) == seq, "of batches alone"


GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"


def test_each_way_to_name_a_place() -> None:
    assert moment(GTID) == Transaction(GTID)
    assert moment("1:binlog.000002:1543") == Transaction("1:binlog.000002:1543")
    assert moment(("shop", 7)) == moment("shop@7") == Change("shop", 7)
    assert moment("1970-01-01T00:00:01.5Z") == moment("1970-01-01 01:00:01.500+01:00") == Time(1500)
    assert moment(datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)) == Time(86_400_000)


@pytest.mark.parametrize("text", ["2026-11-22T15:02:11", "2026-11-22T99:00:00Z"])
def test_a_time_without_a_zone_and_an_impossible_one_are_refused(text: str) -> None:
    with pytest.raises(CutAmbiguous, match=text):
        moment(text)


def test_what_another_program_wrote_ends_no_transaction_and_begins_none() -> None:
    own = {"status": "END", "id": "u:1", "part": 1, "last": False, "wire": 1}
    foreign = ["", "{", "7", "[]", "{}", '{"status": "END"}', '{"id": "u:2", "status": "BEGIN"}']
    texts = [json.dumps(own), *foreign, json.dumps(own | {"last": "true"})]
    assert unfinished(map(Marker, texts), {}) == {"u:1"}
    last = json.dumps(own | {"part": 2, "last": True})
    assert unfinished(map(Marker, [*texts, last]), {}) == frozenset()
