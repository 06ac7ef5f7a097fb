"""Rows that existed already: read between changes of the same rows, with a key and without one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.contents import Replacements, contents, envelopes
from spark_sink.errors import MalformedRecord
from spark_sink.settings.model import TableRule
from spark_sink.warehouse import ledger
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.history import history
from spark_sink.warehouse.milestones import Milestone, Position
from spark_sink.warehouse.table_rules import TableRules
from tests.unit.spark_sink.conftest import FORMATS_LONG, Warehouse
from tests.unit.spark_sink.history import Change, Image, held, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
COLUMNS = (("id", "int"), ("v", "int"))


def image(key: int, value: int) -> Image:
    return {"id": key, "v": value}


def chunk(first: int, number: int, *rows: Image, **more: Any) -> list[Change]:
    """The rows of one SELECT, the first with this `seq`, as a worker publishes them."""
    return [
        Change(
            op="r",
            seq=first + place,
            after=row,
            more={"transaction": {"id": f"snapshot:1:shop.t:{number}", "total_order": place + 1}},
            **more,
        )
        for place, row in enumerate(rows)
    ]


KEYED = [
    *chunk(1, 1, image(1, 10), image(2, 20)),
    Change(op="u", seq=3, before=image(1, 10), after=image(1, 11)),
    Change(op="d", seq=4, before=image(2, 20)),
    # Between their changes: an equal image, one after a delete, and rows that had no record.
    *chunk(5, 2, image(1, 11), image(2, 22), image(3, 30), image(4, 40)),
    Change(op="d", seq=9, before=image(3, 30)),
    Change(op="u", seq=10, before=image(4, 40), after=image(4, 41)),
    Change(op="d", seq=11, before=image(4, 41), headers=("__debezium.newkey",)),
    Change(op="c", seq=12, after=image(5, 41), headers=("__debezium.oldkey",)),
    *chunk(13, 3, image(6, 60), epoch=2),
]
THERE = {1: image(1, 11), 2: image(2, 22), 5: image(5, 41), 6: image(6, 60)}


@pytest.mark.parametrize(
    "deletes",
    [pytest.param("soft", marks=pytest.mark.long("soft deletes are in the other tests")), "hard"],
)
def test_a_table_is_the_fold_of_its_rows_and_changes_in_any_order(
    spark: SparkSession, tmp_path: Path, deletes: str
) -> None:
    warehouse = Warehouse(spark, tmp_path)
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.rules = TableRules(
        [TableRule.model_validate({"match": r"shop\.t", "deletes": deletes, "history": True})]
    )
    warehouse.restart()
    assert held(KEYED) == THERE
    mixed = random.Random(4).sample(KEYED, len(KEYED))
    for batch in (mixed[:7], mixed[7:], mixed[3:9]):
        warehouse.take(*batch)
        warehouse.restart()
    assert {row["id"]: row for row in warehouse.rows()} == THERE
    rows = history(spark, warehouse.path, "shop", "t").orderBy("__epoch", "__seq").collect()
    assert [(row["__op"], row["id"], row["v"]) for row in rows] == [
        (one.op, *(one.after or one.before or {}).values()) for one in KEYED
    ]


def test_recent_rows_that_existed_already_are_seen_before_they_are_merged(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS)]
    warehouse.take(*KEYED[:4])
    start = warehouse.ends()
    for one in KEYED[4:]:
        warehouse.write(one)
    warehouse.store(start, Step.BEGIN)
    assert {row["id"]: row for row in warehouse.fresh()} == THERE
    assert {row["id"]: row for row in warehouse.rows()} == held(KEYED[:4])


@pytest.mark.long("test_partial_images.py completes images")
def test_an_image_that_lacks_columns_is_completed_by_a_row_that_existed_already(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS, ("w", "int"))]
    lacking = Change(
        op="u", seq=3, before={"id": 1}, after={"id": 1, "v": 5}, more={"absent": ["w"]}
    )
    rows = chunk(1, 1, {**image(1, 4), "w": 7}, {**image(2, 4), "w": 8})
    warehouse.take(*rows, lacking)
    assert {row["id"]: (row["v"], row["w"]) for row in warehouse.rows()} == {1: (5, 7), 2: (4, 8)}
    # A row that is read begins a life: what was before it has no part in what follows.
    again = chunk(4, 2, {**image(1, 5), "w": 9})
    changed = Change(op="u", seq=5, before={"id": 1}, after={"id": 1, "v": 6}, more=lacking.more)
    warehouse.take(*again, changed)
    assert {row["id"]: (row["v"], row["w"]) for row in warehouse.rows()} == {1: (6, 9), 2: (4, 8)}


def test_a_column_added_between_the_reads_is_there_for_rows_of_both(warehouse: Warehouse) -> None:
    added = {"w": {"id": "w@2", "initial": {"value": "5"}}}
    known = {"id": {"id": "id@1"}, "v": {"id": "v@1"}}
    warehouse.schemas = [
        schema(*COLUMNS, more=known),
        schema(*COLUMNS, ("w", "int"), version=2, more=known | added),
    ]
    warehouse.take(
        *chunk(1, 1, image(1, 10), image(2, 20)),
        Change(op="u", seq=3, before=image(2, 20), after=image(2, 21)),
        *chunk(4, 2, {**image(2, 21), "w": 5}, {**image(3, 30), "w": 6}, version=2),
    )
    assert {row["id"]: (row["v"], row["w"]) for row in warehouse.rows()} == {
        1: (10, 5), 2: (21, 5), 3: (30, 6),
    }  # fmt: skip


BEFORE = [
    # Before it was read, a row was added, one was removed, and one was changed.
    Change(op="c", seq=1, after=image(1, 1)),
    Change(op="d", seq=2, before=image(9, 9)),
    Change(op="u", seq=3, before=image(2, 1), after=image(2, 2)),
]
READ = chunk(4, 1, image(1, 1), image(2, 2), image(2, 2), image(3, 3))
AFTER = [
    Change(op="c", seq=8, after=image(3, 3)),
    Change(op="d", seq=9, before=image(2, 2)),
]
LEFT = sorted([(1, 1), (2, 2), (3, 3), (3, 3)])


def pairs(rows: Iterable[Image]) -> list[tuple[Any, Any]]:
    return sorted((row["id"], row["v"]) for row in rows)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([BEFORE, READ, AFTER], id="in order", marks=pytest.mark.long("backwards")),
        pytest.param([[*READ[2:], *AFTER], READ[:2], BEFORE], id="backwards"),
        pytest.param(
            [[*BEFORE, *READ[1:]], [READ[0], *AFTER]],
            id="its first row last",
            marks=pytest.mark.long("backwards, where others are before the first row too"),
        ),
    ],
)
def test_without_a_key_the_rows_that_are_read_replace_what_was_published_before(
    warehouse: Warehouse, batches: list[list[Change]]
) -> None:
    warehouse.schemas = [schema(*COLUMNS, key=())]
    for batch in batches:
        warehouse.take(*batch)
        warehouse.restart()
    assert pairs(warehouse.rows()) == LEFT


@pytest.mark.long("recent changes of a keyed table, and the test above without them")
def test_without_a_key_readers_of_recent_changes_and_a_reload_see_the_same(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS, key=())]
    warehouse.take(*BEFORE)
    start = warehouse.ends()
    for one in (*READ, *AFTER):
        warehouse.write(one)
    warehouse.store(start, Step.BEGIN)
    assert pairs(warehouse.fresh()) == LEFT
    warehouse.catch_up(start)
    assert pairs(warehouse.fresh()) == LEFT
    warehouse.reload(from_beginning=True)
    assert pairs(warehouse.rows()) == LEFT


def test_a_batch_states_the_last_row_of_each_table_and_the_time_of_the_last_commit(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS), schema(*COLUMNS, table="other")]
    read = chunk(2, 1, image(1, 1), image(2, 2), ts_ms=700)
    warehouse.take(*read)
    assert milestone(warehouse).reached["shop"] == Position(1, 3, 0)
    assert milestone(warehouse).reached["shop"].ts_ms == 0, "no commit is known"
    warehouse.take(
        Change(op="u", seq=4, before=image(2, 2), after=image(2, 3), ts_ms=900, table="other"),
        *chunk(5, 2, image(3, 3), ts_ms=800),
    )
    found = milestone(warehouse)
    assert (found.reached["shop"], found.reached["shop"].ts_ms) == (Position(1, 5, 900), 900)
    assert found.existing == {("shop", "t"): {"shop": (1, 5)}}
    warehouse.take(Change(op="c", seq=6, after=image(6, 6), ts_ms=650, table="other"))
    # The time is the latest one so far: commits need not be in the order of their times.
    assert (milestone(warehouse).reached["shop"].ts_ms, milestone(warehouse).existing) == (900, {})
    # One that only the topic had is of no commit either, and its row goes.
    removed = {"absent": ["v"], "transaction": {"id": "snapshot:2:shop.t:1", "total_order": 1}}
    warehouse.take(Change(op="d", seq=7, before={"id": 1}, more=removed, ts_ms=990))
    assert milestone(warehouse).reached["shop"].ts_ms == 900
    assert milestone(warehouse).existing == {("shop", "t"): {"shop": (1, 7)}}
    assert {row["id"] for row in warehouse.rows()} == {2, 3}
    parts = contents(envelopes(warehouse.read({}, warehouse.ends()))).tables
    assert parts["shop", "t"].ops == {"r": 3, "d": 1}
    # Beside a record that cannot be used, whose own position does not count.
    bad = json.loads(replacing(99).value())
    del bad["source"]["ts_ms"]
    start = warehouse.ends()
    warehouse.write(json.dumps(bad), headers=[{"key": "replacement"}])
    warehouse.write(replacing(10))
    write_end(warehouse, replacing(12))
    part = contents(envelopes(warehouse.read(start, warehouse.ends()))).tables["shop", "t"]
    assert isinstance(part.fault, MalformedRecord)
    own = ledger.Source("shop", "shop", "t")
    assert part.replaced == Replacements(begun={own: (1, 10)}, ended={own: (1, 12)})


def milestone(warehouse: Warehouse) -> Milestone:
    """What the tables hold after the last batch."""
    found = warehouse.kept.log.batches()[-1].milestone
    assert found is not None
    assert Milestone.of(found.text()) == found
    older = json.loads(found.text())
    del older["existing"]
    kept = Milestone.of(json.dumps(older))
    assert kept is not None
    assert (kept.reached, kept.existing) == (found.reached, {})
    return found


def replacing(seq: int, number: int = 1, **more: Any) -> Change:
    """The record that the rows of a table are gone, and that its existing rows follow."""
    named = {"transaction": {"id": f"snapshot:{number}:shop.t:0", "total_order": 1}}
    return Change(op="t", seq=seq, headers=("replacement",), more=named, **more)


def write_end(warehouse: Warehouse, last: Change) -> None:
    """Writes that all rows have come; `last` is the change with the number before."""
    source = json.loads(last.value())["source"] | {"schema": None}
    text = json.dumps({"source": source, "op": "t", "transaction": {"id": "snapshot:1:shop.t:9"}})
    warehouse.write(None, headers=[{"key": "replacement", "value": text}])


class Reader:
    """A sink of one table, and a reader who must see rows 1 to 3, which the source always has."""

    def __init__(self, warehouse: Warehouse, chance: random.Random) -> None:
        self.warehouse, self._chance = warehouse, chance
        self.changes: list[Change] = []
        self.begin = warehouse.ends()

    def publish(self, *changes: Change) -> None:
        """Publishes changes; a truncate is in the first partition."""
        for one in changes:
            image = one.after or one.before
            partition = 0 if image is None else image["id"] % 2
            self.warehouse.write(one, partition=partition)
        self.changes += changes

    def end(self) -> None:
        """Publishes that all rows have come."""
        write_end(self.warehouse, self.changes[-1])

    def batch(self, *, until: int | None = None) -> None:
        """Applies what is there, or that of partition 0 and a part of the other one; the sink may be killed."""
        end = self.warehouse.ends()
        if until is not None and ("aq.shop.t", 1) in end:
            least, most = self.begin.get(("aq.shop.t", 1), 0), end["aq.shop.t", 1]
            end["aq.shop.t", 1] = min(max(least, until), most)
        moved = self.begin, end
        if self._chance.random() < 0.4:
            own = vars(self.warehouse.applier.warehouse.log)
            own["append"] = killed
            with pytest.raises(Killed):
                self._apply(moved)
            del own["append"]
            self.look()
            self.warehouse.restart()
        self._apply(moved)
        self.begin = end
        self.look()

    def _apply(self, moved: Any) -> None:
        records = self.warehouse.read(*moved)
        number = len(self.changes)
        self.warehouse.applier.apply(records, number, query_id="q", moved=moved)

    def meet_requests(self) -> None:
        """Does what the sink does beside batches."""
        self.warehouse.meet_requests()
        self.look()

    def look(self) -> None:
        """The rows that are always there are seen."""
        assert by_id(self.warehouse.rows()).keys() >= {1, 2, 3}


class Killed(Exception):
    """The sink ends here."""


def killed(_entries: object) -> None:
    raise Killed


@pytest.mark.remedy("sink.RowsPublishedAgain")
@pytest.mark.parametrize("table_format", FORMATS_LONG)
@pytest.mark.long("test_replacements.py has when a table is replaced")
def test_readers_never_see_a_table_empty_whose_rows_are_replaced(
    spark: SparkSession, tmp_path: Path, table_format: Any
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format=table_format)
    warehouse.schemas = [schema(*COLUMNS)]
    sink = Reader(warehouse, random.Random(0))
    before = [image(key, key) for key in (1, 2, 3, 4)]
    sink.publish(*(Change(op="c", seq=key, after=row) for key, row in enumerate(before, start=1)))
    sink.batch()
    # The source has lost row 4 without a record of it. Its rows come in two chunks, and one changes meanwhile.
    start = warehouse.ends()
    sink.publish(replacing(5), *chunk(6, 1, image(1, 10), image(2, 20)))
    warehouse.store(start, Step.BEGIN)
    assert by_id(warehouse.fresh()) == by_id(before)
    sink.batch()
    assert by_id(warehouse.rows()) == by_id(before)
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "RowsPublishedAgain"
    assert "python -m app snapshot start shop shop.t --replace" in held.action
    sink.publish(
        Change(op="u", seq=8, before=image(1, 10), after=image(1, 11)), *chunk(9, 2, image(3, 30))
    )
    sink.end()
    # Of the other partition, which has rows 1 and 3, the batch has nothing yet.
    sink.batch(until=0)
    sink.meet_requests()
    assert warehouse.waiting() is None
    assert by_id(warehouse.rows()) == by_id([image(1, 11), image(2, 20), image(3, 30)])


@pytest.mark.long("the test above has a reading that ends, test_apply.py a truncate")
@pytest.mark.parametrize("table_format", FORMATS_LONG)
def test_a_reading_that_is_stopped_leaves_the_rows_until_an_operator_takes_what_has_come(
    spark: SparkSession, tmp_path: Path, table_format: Any
) -> None:
    warehouse = Warehouse(spark, tmp_path, table_format=table_format)
    warehouse.schemas = [schema(*COLUMNS)]
    sink = Reader(warehouse, random.Random(0))
    there = [image(1, 11), image(2, 20), image(3, 30)]
    sink.publish(*(Change(op="c", seq=seq, after=row) for seq, row in enumerate(there, start=7)))
    sink.batch()
    # It is stopped after its first row; the operator takes what has come.
    sink.publish(Change(op="c", seq=10, after=image(7, 70)), replacing(11), *chunk(12, 3, there[0]))
    sink.batch()
    assert by_id(warehouse.rows()) == by_id(there)
    warehouse.reload()
    assert by_id(warehouse.rows()) == by_id(there[:1])
    # A truncate of the source empties it at once.
    sink.publish(Change(op="t", seq=13))
    warehouse.catch_up(sink.begin)
    assert (warehouse.rows(), warehouse.waiting()) == ([], None)


def by_id(rows: Iterable[Image]) -> dict[int, Image]:
    return {row["id"]: row for row in rows}


class Source:
    """A table of six rows at most, of which three are always there, and the worker that reads it."""

    def __init__(self, sink: Reader, chance: random.Random) -> None:
        self.sink, self._chance = sink, chance
        self.rows = {key: image(key, 0) for key in (1, 2, 3, 4)}
        self.seq = 0
        self.last: int | None = None
        """The key of the last row that was read; None: nothing is read."""
        self.is_known = True
        """Whether all changes are published, or will be."""
        for row in self.rows.values():
            self._publish(Change(op="c", seq=self.seq + 1, after=row))

    def _publish(self, *changes: Change) -> None:
        self.seq = changes[-1].seq
        self.sink.publish(*changes)

    def change(self, *, is_logged: bool = True) -> None:
        """Changes, adds or removes a row, with a record of it or without."""
        key = self._chance.randint(1, 6)
        before = self.rows.get(key)
        after = None if before and key > 3 and self._chance.random() < 0.5 else image(key, self.seq)
        if after is None:
            del self.rows[key]
        else:
            self.rows[key] = after
        op = "d" if after is None else "c" if before is None else "u"
        if is_logged:
            self._publish(Change(op=op, seq=self.seq + 1, before=before, after=after))
        self.is_known = self.is_known and is_logged

    def lose(self) -> None:
        """Changes a row without a record of it."""
        self.change(is_logged=False)

    def replace(self) -> None:
        """Begins to publish all rows again, whatever was being read."""
        self.last, self.is_known = 0, True
        self._publish(replacing(self.seq + 1, self.seq))

    def read(self) -> None:
        """Publishes the next rows, and after the last ones that all have come."""
        if self.last is None:
            return
        found = [row for key, row in sorted(self.rows.items()) if key > self.last][:2]
        if found:
            self.last = found[-1]["id"]
            self._publish(*chunk(self.seq + 1, self.seq, *found))
        if len(found) < 2:
            self.last = None
            self.sink.end()

    def stop(self) -> None:
        """Ends a reading before its last row."""
        if self.last is not None:
            self.last, self.is_known = None, False

    def finish(self) -> None:
        """Publishes what is needed for the source's rows to be known."""
        if not self.is_known:
            self.replace()
        while self.last is not None:
            self.read()


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.long("the tests above have a replacement")
def test_rows_are_replaced_at_once_whatever_happens_meanwhile(
    warehouse: Warehouse, seed: int
) -> None:
    chance = random.Random(seed)
    warehouse.schemas = [schema(*COLUMNS)]
    sink = Reader(warehouse, chance)
    source = Source(sink, chance)
    sink.batch()
    steps = [source.change, source.lose, source.replace, source.read, source.read, source.stop]
    for _ in range(5):
        for step in chance.choices(steps, weights=(4, 1, 2, 4, 4, 1), k=chance.randint(2, 6)):
            step()
        sink.batch(until=chance.choice([None, chance.randint(0, len(sink.changes))]))
        if chance.random() < 0.5:
            sink.meet_requests()
    source.finish()
    sink.batch()
    sink.meet_requests()
    assert warehouse.waiting() is None
    assert by_id(warehouse.rows()) == source.rows
