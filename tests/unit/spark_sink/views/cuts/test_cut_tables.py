"""Cuts of a real warehouse: the bank's accounts as of whole transfers, whatever the sink has merged."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from functools import partial
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from spark_sink.errors import CutAmbiguous, CutGone, CutIncomplete, CutUnknown, UnknownTable
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.settings.model import Settings
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.positions import Offsets
from spark_sink.spark.java import java_class
from spark_sink.views.cuts.cut_tables import ConsistentCut, as_of, cut_lines
from spark_sink.views.cuts.views import views
from spark_sink.views.recent.follower import Follower
from tests.unit.spark_sink.conftest import FORMAT, Warehouse
from tests.unit.spark_sink.history import Change, schema
from tests.unit.spark_sink.views.cuts.bank import (
    ACCOUNTS,
    MARKERS,
    MONEY,
    SCHEMAS,
    TABLES,
    Bank,
    State,
)
from tests.unit.spark_sink.warehouse.test_maintenance_schedule import kept

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Sink:
    """A sink's two queries, over the bank's topics instead of Kafka's."""

    def __init__(self, warehouse: Warehouse, bank: Bank) -> None:
        self.warehouse = warehouse
        self.bank = bank
        self.batches = 0
        warehouse.schemas = SCHEMAS
        self.restart()

    def restart(self) -> None:
        """Forgets what a process remembers."""
        self.warehouse.restart()
        self.until: Offsets = self.warehouse.kept.log.applied()
        self.warehouse.applier.applied = dict(self.until)
        self.follower = Follower(
            self.warehouse.spark,
            Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse=self.warehouse.path),
            log=self.warehouse.kept.recent,
            merged=lambda: self.warehouse.applier.applied,
            followed=dict,
            metrics=Metrics(),
        )
        self.follower._topics = cast(KafkaTopics, self.bank)
        given: Any = self.follower
        given._with_versions = self._with_versions
        self.until = {**self.until, MARKERS: self.bank.shown[MARKERS]}

    def _with_versions(self, records: DataFrame, _: Offsets) -> DataFrame:
        at = {"topic": "aq.__schemas", "partition": 0, "key": None}
        values = [{**at, "offset": number, "value": text} for number, text in enumerate(SCHEMAS)]
        return records.unionByName(self.warehouse.frame(values))

    def store(self) -> None:
        """Stores what Kafka shows as recent changes."""
        until = self.bank.ends()
        records = self.warehouse.frame(self.bank.records(self.until, until))
        self.follower._store(records, self.until, until)
        if self.follower._tidying is not None:
            self.follower._tidying.join()
        self.until = until

    def merge(self, until: Offsets | None = None, *, is_whole: bool = False) -> None:
        """Merges a batch that ends anywhere in what is stored, or there."""
        start = self.warehouse.applier.applied
        if until is None:
            until = {
                at: self.bank.random.randint(start.get(at, 0), end)
                for at, end in self.until.items()
                if at != MARKERS
            }
        moved = dict(start), dict(until)
        self.batches += 1
        self.warehouse.applier.apply(
            self.warehouse.frame(self.bank.records(*moved)),
            self.batches,
            query_id="q",
            moved=moved,
            is_whole=is_whole,
        )

    def rows(self) -> Offsets:
        """The offsets that are stored of tables."""
        return {at: end for at, end in self.until.items() if at != MARKERS}

    def cut(self, at: Any = None) -> ConsistentCut:
        return as_of(self.warehouse.spark, self.warehouse.path, at)


def held(cut: ConsistentCut) -> State:
    """The accounts in a cut."""
    names = set(cut.names())
    rows = cut.read()
    return {
        table: {row.id: row.v for row in rows["shop", table].collect()}
        if ("shop", table) in names
        else {}
        for table in TABLES
    }


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        pytest.param(seed, rounds, marks=pytest.mark.long("test_finding.py, and a cut of the past"))
        for seed, rounds in ((3, 2), (7, 12))
    ],
)
def test_a_cut_has_whole_transfers_before_and_after_merges_that_divide_them(
    warehouse: Warehouse, seed: int, rounds: int
) -> None:
    bank = Bank(seed)
    sink = Sink(warehouse, bank)
    found = []
    for round_number in range(rounds):
        for parts in (1, 1, 2):
            bank.transfer(parts=parts)
        for _ in range(bank.random.randint(4, 9)):
            bank.move()
        sink.store()
        if round_number % 4 == 2:
            sink.restart()
            sink.store()
        if round_number % 4 == 3:
            for table in TABLES:
                warehouse.kept.upkeep.compact(("shop", table))
        sink.merge()
        try:
            cut = sink.cut()
        except CutUnknown:
            continue
        seq = cut.positions["shop"].seq
        assert held(cut) == bank.states[seq]
        found.append(seq)
    assert found == sorted(found)
    bank.settle()
    sink.store()
    newest = sink.cut()
    assert newest.positions["shop"].seq == max(bank.states)
    assert newest.positions["shop"].transaction == bank.ids[max(bank.states)]
    assert held(newest) == bank.states[max(bank.states)]
    # All is merged, and a further transfer is visible in part.
    sink.merge(sink.rows())
    assert held(sink.cut()) == bank.states[max(bank.states)]


def test_a_version_of_the_table_before_is_not_taken_from_a_table_that_was_made_again(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(("id", "int"), ("v", "int"))]
    version, seq = partial(warehouse.kept.upkeep.version, ("shop", "t")), itertools.count(1)

    def merged() -> None:
        start, row = warehouse.ends(), {"id": next(seq), "v": 1}
        warehouse.write(Change(op="c", seq=row["id"], after=row))
        moved = start, warehouse.ends()
        records, number = warehouse.read(*moved), row["id"]
        apply = partial(warehouse.applier.apply, records, number, query_id="q")
        apply(moved=moved, is_whole=True)

    merged()
    merged()
    before = version()
    assert as_of(warehouse.spark, warehouse.path, ("shop", 2)).table("shop", "t").count() == 2
    shutil.rmtree(f"{warehouse.path}/shop/t")
    java_class(warehouse.spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    merged()
    warehouse.reload(from_beginning=True)
    # The numbers of its versions begin again.
    assert version() < before
    while version() < before:
        merged()
    cut = as_of(warehouse.spark, warehouse.path, ("shop", 2))
    assert cut.versions["shop", "t"] == before
    with pytest.raises(CutGone, match="made again"):
        cut.table("shop", "t")
    newest = as_of(warehouse.spark, warehouse.path)
    assert newest.table("shop", "t").count() == next(seq) - 1


@pytest.mark.remedy("sink.CutGone", "sink.CutIncomplete", "sink.CutAmbiguous", "sink.CutUnknown")
def test_a_cut_of_the_past_is_read_by_transaction_number_and_time(warehouse: Warehouse) -> None:
    bank = Bank(seed=5)
    sink = Sink(warehouse, bank)
    with pytest.raises(CutUnknown):
        sink.cut()
    for _ in range(2):
        for _ in range(2):
            bank.transfer()
        bank.settle()
        sink.store()
        sink.merge(sink.rows())
    # What is merged is no longer among the newest recent changes.
    sink.follower._coverage.batches = 1
    bank.transfer()
    bank.settle()
    sink.store()
    ends = sorted(bank.states)[1:]
    by_name = sink.cut(bank.ids[ends[1]])
    assert (by_name.positions["shop"].seq, held(by_name)) == (ends[1], bank.states[ends[1]])
    by_number = sink.cut(("shop", ends[2] + 1))
    assert by_number.positions["shop"].seq == ends[2]
    time = f"1970-01-01T00:16:40.{ends[3]:03}Z"
    assert held(sink.cut(time)) == bank.states[ends[3]]
    shown = views(warehouse.spark, warehouse.path, database="shop", at=bank.ids[ends[3]])
    money = warehouse.spark.sql("SELECT sum(v) FROM (SELECT v FROM a UNION ALL SELECT v FROM b)")
    assert money.collect()[0][0] == len(TABLES) * ACCOUNTS * MONEY
    lines = list(cut_lines(shown, [("shop", "b")]))
    where = f"epoch 1, seq {ends[3]}, committed 1970-01-01T00:16:40.{ends[3]:03}Z"
    assert lines[0] == f"destination shop: transaction {bank.ids[ends[3]]}, {where}"
    assert re.fullmatch(r"shop\.b: version \d, \d recent changes added, \d visible .*", lines[1])
    with pytest.raises(UnknownTable):
        list(cut_lines(shown, [("shop", "c")]))
    with pytest.raises(CutGone, match=r"transaction x:1; cuts are possible from"):
        sink.cut("x:1")
    with pytest.raises(CutIncomplete, match=f"complete up to seq {ends[-1]}"):
        sink.cut(("shop", ends[-1] + 1))
    with pytest.raises(CutAmbiguous, match="no time zone"):
        sink.cut("1970-01-01T00:16:40")
    # A later cut, once the rest is there, and a time with its zone.
    bank.transfer()
    bank.settle()
    sink.store()
    later = max(bank.states)
    assert sink.cut(bank.ids[later]).positions["shop"].seq == later
    assert held(sink.cut(("shop", ends[-1] + 1))) in (bank.states[ends[-1]], bank.states[later])
    assert sink.cut("1970-01-01T00:17:00Z").positions["shop"].seq == later


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.long("a sink that stops leaves the newest cut")
def test_the_newest_cut_is_still_there_after_maintenance_without_a_batch(
    warehouse: Warehouse, is_restarted: bool
) -> None:
    bank = Bank(seed=9)
    sink = Sink(warehouse, bank)
    # As many files as are worth a compaction.
    for _ in range(2 if FORMAT == "delta" else 6):
        bank.transfer()
        bank.settle()
        sink.store()
        sink.merge(sink.rows(), is_whole=True)
    if is_restarted:
        sink.restart()
    plan = Plan(every=1, retention_hours=1 / 3600)
    maintenance = kept(warehouse, plan, milestones=warehouse.applier.milestones)
    name, before = ("shop", TABLES[0]), sink.cut().versions
    assert maintenance.maintain(name) == ""
    # Then the files of that version are unused for longer than they are kept.
    time.sleep(1.5)
    assert maintenance.maintain(name) == ""
    cut = sink.cut()
    assert cut.versions[name] > before[name]
    assert held(cut) == bank.states[max(bank.states)]


def test_a_sink_that_stops_leaves_the_newest_cut(warehouse: Warehouse) -> None:
    bank = Bank(seed=5)
    sink = Sink(warehouse, bank)
    bank.settle()
    sink.store()
    sink.merge(sink.rows())
    bank.transfer()
    bank.settle()
    sink.store()
    positions = sink.cut().positions
    sink.follower.stop()
    # The batch in hand, which covers nothing any more.
    sink.store()
    assert sink.cut().positions == positions
