"""Rows whose images lack columns: made whole from what they were before, or named."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.batch.partial_images import Ahead, roots
from spark_sink.errors import UnsupportedPartialImage
from spark_sink.settings.model import TableRule
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.opening import Format
from spark_sink.warehouse.table_rules import NO_RULES, TableRules
from spark_sink.warehouse.waiting_tables import Waits
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic, record, table
from tests.unit.spark_sink.conftest import FORMATS, FORMATS_LONG, Warehouse
from tests.unit.spark_sink.history import Change, Image, schema
from wire.records import HEADER_NEW_KEY, HEADER_OLD_KEY

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DAY = "2026-01-02"
COLUMNS = (("id", "int"), ("a", "varchar(9)"), ("b`${x}", "varchar(9)"), ("day", "date"))
NAMES = [name for name, _ in COLUMNS]
TOPIC = "aq.shop.t"


class Source:
    """A table under MINIMAL images: what its binlog holds of each change, and what it really has."""

    def __init__(self) -> None:
        self.rows: dict[int, Image] = {}
        self.changes: list[tuple[int, Change]] = []
        """With the partition of each."""
        self.after: dict[int, Image] = {}
        """The whole row after each change but a delete, by `seq`."""

    def insert(self, key: int, *values: str | None) -> None:
        self.rows[key] = dict(zip(NAMES, (key, *values), strict=True))
        self._write("c", key, after=self.rows[key])

    def update(self, key: int, *, to: int | None = None, **values: str | None) -> None:
        """Changes columns (`b` for its long name), the key too where `to` is given."""
        new = {"b`${x}" if name == "b" else name: value for name, value in values.items()}
        row = self.rows.pop(key) | new
        if to is None:
            self.rows[key] = row
            self._write("u", key, before={"id": key}, after={"id": key} | new)
            return
        self.rows[to] = row | {"id": to}
        self._write("d", key, before={"id": key}, lacks=[*new], headers=(HEADER_NEW_KEY,))
        self._write("c", to, after={"id": to} | new, headers=(HEADER_OLD_KEY,))

    def delete(self, key: int) -> None:
        del self.rows[key]
        self._write("d", key, before={"id": key})

    def _write(
        self,
        op: str,
        key: int,
        *,
        before: Image | None = None,
        after: Image | None = None,
        lacks: Collection[str] = (),
        headers: tuple[str, ...] = (),
    ) -> None:
        last = after or before or {}
        # Of a delete, a worker may name as absent only what the image after the change lacks.
        absent = [name for name in NAMES if name not in last and name not in lacks]
        change = Change(
            op=op,
            seq=len(self.changes) + 1,
            before=before,
            after=after,
            more={"absent": absent} if absent else None,
            headers=headers,
        )
        self.changes.append((key % 2, change))
        if op != "d":
            self.after[change.seq] = dict(self.rows[key])

    @property
    def held(self) -> list[Image]:
        """The expected rows of the warehouse."""
        return sorted(self.rows.values(), key=lambda row: int(row["id"]))


class Halved(Warehouse):
    """A warehouse fed from two partitions, as unevenly as Spark may cut its batches."""

    def __init__(self, spark: SparkSession, path: Path, **more: Any) -> None:
        super().__init__(spark, path, **more)
        self.schemas = [schema(*COLUMNS)]
        self.at = {(TOPIC, 0): 0, (TOPIC, 1): 0}

    def restart(self) -> None:
        super().restart()
        self.applier.ahead = Ahead(
            self, sleep=lambda _: None, clock=iter(range(0, 10**6, 15)).__next__
        )

    def publish(self, source: Source) -> None:
        """Writes what is new at the source."""
        for partition, change in source.changes[len(self.records) :]:
            offset = sum(one["partition"] == partition for one in self.records)
            headers = [{"key": name} for name in change.headers]
            self.records.append(
                {"topic": TOPIC, "partition": partition, "offset": offset, "key": None}
                | {"value": change.value(), "headers": headers}
            )

    def batch(self, even: int, odd: int, *, repeat: bool = False) -> None:
        """Applies up to so many records of each partition; then perhaps again, as after a crash."""
        start, ends = dict(self.at), self.ranges(())[1]
        for (topic, partition), number in zip(self.at, (even, odd), strict=True):
            at = (topic, partition)
            self.at[at] = min(ends[at], start[at] + number)
        for number in range(1 + repeat):
            if number:
                self.restart()
            self._apply(start, dict(self.at))
        assert self.waiting() is None, self.waiting()

    def killed(self, even: int, odd: int, patch: pytest.MonkeyPatch, *, at: str) -> None:
        """Applies such a batch, and is killed before its rows or its markers (`at`) are merged."""
        start, broken = dict(self.at), self.kept.tables if at == "row" else self.kept.deleted.tables
        merge = type(broken).merge

        def merged(one: Any, *args: Any, **more: Any) -> None:
            if one is broken:
                raise RuntimeError("killed here")
            merge(one, *args, **more)

        with patch.context() as patched, suppress(RuntimeError):
            patched.setattr(type(broken), "merge", merged)
            self.batch(even, odd)
        self.at = start
        self.restart()

    def _apply(self, start: Offsets, end: Offsets) -> None:
        self.applier.apply(self.read(start, end), 1, query_id="q", moved=(start, end))

    def ranges(self, topics: Collection[str]) -> tuple[Offsets, Offsets]:
        assert set(topics) <= {TOPIC}
        ends = {at: sum(one["partition"] == at[1] for one in self.records) for at in self.at}
        return dict.fromkeys(self.at, 0), ends

    def read(self, start: Offsets, end: Offsets) -> DataFrame:
        return self.frame(
            [
                one
                for one in self.records
                for at in [(one["topic"], one["partition"])]
                if start.get(at, 0) <= one["offset"] < end.get(at, 0)
            ]
        )

    def held(self) -> list[Image]:
        return sorted(self.by_change().values(), key=lambda row: int(row["id"]))

    def by_change(self) -> dict[int, Image]:
        """The rows, by the `seq` of their last change."""
        rows = self.rows(bookkeeping=True)
        found = [{name: row[name] for name in NAMES} for row in rows]
        for row, shown in zip(rows, found, strict=True):
            text = (row["__unrepresentable"] or {}).get("day")
            shown["day"] = text or (shown["day"] and shown["day"].isoformat())
        return {row["__seq"]: shown for row, shown in zip(rows, found, strict=True)}


@pytest.fixture
def halved(warehouse: Warehouse) -> Halved:
    return Halved(warehouse.spark, Path(warehouse.path))


def test_a_lineage_begins_where_its_first_life_does() -> None:
    links = {("s", 9): ("s", 5), ("s", 5): ("s", 2), ("s", 2): ("s", 1), ("s", 8): ("s", 7)}
    assert roots(links) == {
        ("s", 9): ("s", 1),
        ("s", 5): ("s", 1),
        ("s", 2): ("s", 1),
        ("s", 8): ("s", 7),
    }
    long = {("s", n + 1): ("s", n) for n in range(20_000)}
    assert set(roots(long).values()) == {("s", 0)}


def test_columns_that_no_image_holds_stay_also_under_another_key(halved: Halved) -> None:
    source = Source()
    for key in (1, 2, 3):
        source.insert(key, "a", "b", "0000-00-00" if key == 2 else DAY)
    source.insert(10, "x", None, None)
    halved.publish(source)
    halved.batch(9, 9)
    # Each to where another was: 3 to 4, 2 to 3, 1 to 2; one that is new, changed, moved twice, and moved back.
    for key in (3, 2, 1):
        source.update(key, to=key + 1)
    source.insert(20, "n", "n", DAY)
    source.update(20, b=None)
    source.update(20, to=21, a="m")
    source.update(21, to=20, day="0000-00-00")
    source.update(20, a="last")
    source.update(10, a="y", b="z")
    source.update(10, to=11)
    source.delete(11)
    source.insert(11, "again", None, None)
    halved.publish(source)
    halved.batch(99, 99, repeat=True)
    assert halved.held() == source.held


def test_a_statement_has_its_effect_beside_half_of_a_move_whose_other_half_is_read_ahead(
    halved: Halved,
) -> None:
    more = {"c": {"id": "c@1", "initial": {"value": 5}}}
    altered = schema(*COLUMNS, ("c", "int"), version=2, more=more, topic=TOPIC)
    halved.schemas = [schema(*COLUMNS, topic=TOPIC), altered]
    topic = Topic(halved)

    def follows(waits: Waits) -> Ddl:
        kept = halved.kept
        return Ddl(topics=topic, warehouse=kept, waits=waits, on_drop="keep", on_rename="keep")

    halved.follows = follows
    halved.restart()
    source = Source()
    for key in (1, 3):
        source.insert(key, "a", "b", DAY)
    halved.publish(source)
    halved.batch(9, 9)
    source.update(1, to=2, a="x")
    halved.publish(source)
    # It follows both halves, and no row follows it.
    topic.values.append(record(9, "ALTER TABLE …", table("t", "altered", version=2)))
    halved.batch(0, 9)
    assert halved.held() == source.held
    assert {row["id"]: row["c"] for row in halved.rows()} == {2: 5, 3: 5}


@pytest.mark.remedy("sink.UnsupportedPartialImage")
@pytest.mark.long("test_waits has the same without moves")
def test_a_row_that_is_not_known_makes_its_table_wait_and_one_written_again_ends_that(
    halved: Halved,
) -> None:
    source = Source()
    source.insert(2, "a", "b", DAY)
    halved.publish(source)
    halved.batch(9, 9)
    source.rows[4] = {"id": 4, "a": "lost", "b`${x}": "lost", "day": None}
    source.update(4, a="x")
    source.update(4, to=6)
    halved.publish(source)
    with pytest.raises(AssertionError, match="waiting"):
        halved.batch(99, 99)
    held = halved.waiting()
    assert held is not None
    assert held.reason == "topic aq.shop.t, partition 0, offset 3"
    assert halved.held() == [source.rows[2]]
    with pytest.raises(UnsupportedPartialImage, match="--skip-unusable"):
        halved.reload()
    source.insert(6, "whole", "whole", None)
    halved.publish(source)
    halved.at = dict(halved.ranges(())[1])
    halved.reload()
    assert halved.held() == source.held


@dataclass
class Chance:
    """A random life of a table, over five keys."""

    seed: int

    def live(self, source: Source, changes: int) -> None:
        dice = random.Random(self.seed)
        for _ in range(changes):
            there, key = sorted(source.rows), dice.randrange(5)
            values: dict[str, Any] = {
                name: f"{name}{dice.randrange(99)}" for name in "ab" if dice.random() < 0.4
            }
            if key not in source.rows:
                source.insert(key, "i", None, DAY)
            elif (free := [k for k in range(5) if k not in there]) and dice.random() < 0.5:
                source.update(key, to=dice.choice(free), **values)
            elif dice.random() < 0.2:
                source.delete(key)
            else:
                source.update(key, **(values or {"a": "u"}))
        self.dice = dice


@pytest.mark.long("the test above has each kind of change")
@pytest.mark.parametrize("seed", [1, 2])
def test_however_batches_are_cut_and_repeated_the_rows_are_those_of_the_source(
    halved: Halved, seed: int
) -> None:
    source, chance = Source(), Chance(seed)
    chance.live(source, 60)
    halved.publish(source)
    while halved.at != halved.ranges(())[1]:
        even, odd = chance.dice.randrange(0, 30), chance.dice.randrange(0, 30)
        if even + odd:
            halved.batch(even, odd, repeat=chance.dice.random() < 0.3)
    assert halved.held() == source.held, json.dumps(source.held)


HARD = TableRules([TableRule(match=r"shop\..*", deletes="hard")])


@pytest.mark.parametrize("table_format", FORMATS_LONG)
@pytest.mark.long("each kind of change")
def test_a_change_of_a_row_that_was_removed_since_neither_waits_nor_gives_others_old_values(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: Format
) -> None:
    source, halved = Source(), Halved(spark, tmp_path, table_format=table_format)
    halved.rules = HARD
    halved.restart()
    source.insert(1, "a", "b", DAY)
    source.insert(7, "a", "b", DAY)
    source.update(1, to=3, a="m")
    source.update(3, b="n")
    source.delete(3)
    halved.publish(source)
    halved.batch(0, 4)
    halved.batch(0, 2)
    # The ledger of an older copy: the row that completes the second half of the move is gone.
    halved.at = {(TOPIC, 0): 0, (TOPIC, 1): 3}
    halved.batch(0, 1)
    halved.batch(0, 1)
    assert halved.held() == [source.rows[7]]
    halved.batch(0, 1)
    # Of a batch that was killed, the marker of a deleted row is stored, and what precedes it is not merged.
    source.update(7, a="x")
    source.update(7, to=9)
    source.insert(7, "again", "b", DAY)
    source.delete(7)
    halved.publish(source)
    halved.killed(0, 9, monkeypatch, at="row")
    halved.batch(0, 1)
    halved.batch(0, 2)
    assert halved.held() == source.held
    halved.batch(0, 9)
    assert halved.held() == source.held


@pytest.mark.long("the test above has what goes wrong without markers")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("table_format", FORMATS)
def test_where_deleted_rows_are_removed_no_change_takes_values_of_another_time(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: Format,
    seed: int,
) -> None:
    source, chance = Source(), Chance(seed)
    chance.live(source, 40)
    halved = Halved(spark, tmp_path, table_format=table_format)
    halved.publish(source)
    ends, before = halved.ranges(())[1], [dict(halved.at)]
    halved.rules = HARD
    halved.restart()
    dice = chance.dice
    story: list[object] = []
    while halved.at != ends:
        cut = dice.randrange(0, 12), dice.randrange(1, 12)
        match dice.randrange(8):
            case 0:
                at = dice.choice(("row", "marker"))
                story.append(("killed", cut, at))
                halved.killed(*cut, monkeypatch, at=at)
                halved.batch(*cut)
            case 1 if dice.random() < 0.7:
                # An older ledger, as of a backup.
                halved.at = dict(dice.choice(before))
                story.append(("older", dict(halved.at)))
                halved.restart()
            case 2:
                halved.rules = dice.choice((HARD, NO_RULES))
                story.append(("rules", halved.rules is HARD))
                halved.restart()
            case 3 if halved.rules is HARD:
                story.append("sweep")
                while name := halved.applier.deleted.due():
                    halved.applier.deleted.sweep(name)
            case _:
                story.append(cut)
                try:
                    halved.batch(*cut)
                except AssertionError as fault:
                    raise AssertionError(story) from fault
                before.append(dict(halved.at))
                for seq, row in halved.by_change().items():
                    assert row == source.after[seq], (seq, story)
    assert halved.held() == source.held, story
