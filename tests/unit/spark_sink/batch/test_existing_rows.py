"""Rows that existed already: read between changes of the same rows, with a key and without one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.contents import contents, envelopes
from spark_sink.settings import TableRule
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.history import history
from spark_sink.warehouse.milestones import Milestone, Position
from spark_sink.warehouse.table_rules import TableRules
from tests.unit.spark_sink.conftest import Warehouse
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


def milestone(warehouse: Warehouse) -> Milestone:
    """What the tables hold after the last batch."""
    found = warehouse.kept.ledger.batches()[-1].milestone
    assert found is not None
    assert Milestone.of(found.text()) == found
    older = json.loads(found.text())
    del older["existing"]
    kept = Milestone.of(json.dumps(older))
    assert kept is not None
    assert (kept.reached, kept.existing) == (found.reached, {})
    return found
