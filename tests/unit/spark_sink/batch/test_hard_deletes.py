"""Hard deletes: no row of a deleted key stays in the table, and none comes back."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.errors import ForeignTable, SparkFailed
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.settings.model import TableRule
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.protocol import CommitConflict
from spark_sink.warehouse.table_rules import NO_RULES, TableRules
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema
from tests.unit.spark_sink.warehouse.test_maintenance_schedule import kept

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
HARD = TableRules([TableRule(match=r"shop\..*", deletes="hard")])
NAME = ("shop", "t")


@pytest.fixture
def hard(spark: SparkSession, tmp_path: Path) -> Warehouse:
    found = Warehouse(spark, tmp_path)
    found.schemas = [schema(("id", "int"), ("v", "int"))]
    found.rules = HARD
    found.restart()
    return found


def put(key: int, value: int, seq: int) -> Change:
    return Change(op="c", seq=seq, after={"id": key, "v": value})


def gone(key: int, seq: int) -> Change:
    return Change(op="d", seq=seq, before={"id": key, "v": 0})


def stored(warehouse: Warehouse) -> dict[int, Any]:
    """All rows that the table's files have, markers too."""
    shape = warehouse.kept.tables.shape(*NAME)
    assert shape is not None
    rows = warehouse.kept.tables.rows(shape).collect()
    return {row["id"]: None if row["__deleted"] else row.v for row in rows}


def sweep(warehouse: Warehouse) -> None:
    while name := warehouse.applier.deleted.due():
        warehouse.applier.deleted.sweep(name)


def test_a_deleted_row_is_removed_and_an_older_change_of_its_key_does_not_bring_it_back(
    hard: Warehouse,
) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2), put(3, 30, 3))
    hard.take(
        gone(1, 8),
        gone(4, 9),
        Change(op="u", seq=10, before={"id": 2, "v": 20}, after={"id": 2, "v": 21}),
    )
    assert stored(hard) == {2: 21, 3: 30}
    # Of a partition that is read later: the topic had fewer once.
    hard.restart()
    hard.take(put(1, 11, 5), put(4, 40, 6), put(3, 31, 7), partition=1)
    assert stored(hard) == {2: 21, 3: 31}
    hard.take(put(1, 12, 11), partition=1)
    assert stored(hard) == {1: 12, 2: 21, 3: 31}


@pytest.mark.parametrize(
    "at", ["marker", pytest.param("row", marks=pytest.mark.long("killed at the marker"))]
)
def test_no_row_is_removed_before_its_marker_is_stored_and_a_killed_batch_is_applied_again(
    hard: Warehouse, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2))
    broken = hard.kept.tables if at == "row" else hard.kept.deleted.tables
    with monkeypatch.context() as patch:
        patch.setattr(type(broken), "merge", broken_for(broken, type(broken).merge))
        with pytest.raises(SparkFailed):
            hard.take(gone(1, 3), put(2, 21, 4))
    assert stored(hard) == {1: 10, 2: 20}
    hard.restart()
    hard.catch_up(hard.kept.log.applied())
    assert stored(hard) == {2: 21}


def broken_for(broken: Any, merge: Any) -> Any:
    """`merge`, failing for one space's tables."""

    def merged(self: Any, *args: Any, **more: Any) -> None:
        if self is broken:
            raise RuntimeError("killed here")
        merge(self, *args, **more)

    return merged


def test_tables_that_are_merged_at_once_find_the_same_markers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse, asked = MemoryWarehouse(), threading.Barrier(2)
    names, found = type(warehouse.deleted.tables).names, []

    def slow(self: Any) -> Any:
        found.append(names(self))
        with suppress(threading.BrokenBarrierError):
            asked.wait(0.2)
        return found[-1]

    monkeypatch.setattr(type(warehouse.deleted.tables), "names", slow)
    deleted = DeletedKeys(warehouse=cast(Any, warehouse), rules=NO_RULES)
    with ThreadPoolExecutor(2) as pool:
        for name in (NAME, ("shop", "other")):
            pool.submit(deleted.put_back, name)
    # What one of them found must not replace what the other has stored since.
    assert found == [[]]


@pytest.mark.long("the contract of warehouses, and the other cases")
def test_the_setting_may_change_either_way(hard: Warehouse) -> None:
    hard.rules = NO_RULES
    hard.restart()
    hard.take(put(1, 10, 1), put(2, 20, 2), gone(1, 5))
    assert stored(hard) == {1: None, 2: 20}
    hard.rules = HARD
    hard.restart()
    sweep(hard)
    assert stored(hard) == {2: 20}
    hard.take(put(1, 11, 4), gone(2, 6), partition=1)
    assert stored(hard) == {}
    hard.rules = NO_RULES
    hard.restart()
    hard.take(put(1, 11, 3), put(2, 21, 4), put(3, 30, 7), gone(3, 8), partition=2)
    assert stored(hard) == {3: None}


@pytest.mark.long("the other cases have each part")
def test_markers_follow_a_new_column_and_a_reload(hard: Warehouse) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2), gone(1, 5))
    hard.schemas.append(schema(("id", "int"), ("v", "int"), ("w", "int"), version=2))
    wide = Change(op="c", seq=6, after={"id": 3, "v": 30, "w": 1}, version=2)
    hard.take(wide)
    sweep(hard)
    assert stored(hard) == {2: 20, 3: 30}
    hard.take(put(1, 11, 3), partition=1)
    assert stored(hard) == {2: 20, 3: 30}
    hard.reload(from_beginning=True)
    sweep(hard)
    hard.restart()
    hard.take(put(1, 11, 4), gone(2, 9), partition=2)
    assert stored(hard) == {3: 30}


def test_a_foreign_table_and_another_writer_do_not_end_a_sweep() -> None:
    tables = Foreign()
    keys = DeletedKeys(warehouse=cast(Any, tables), rules=HARD)
    assert keys.due() == ("shop", "lost")
    tables.fault = CommitConflict("another writer")
    keys.sweep(("shop", "lost"))
    assert keys.due() == ("shop", "lost")
    tables.fault = ForeignTable("/wh/shop/lost")
    keys.sweep(("shop", "lost"))
    assert keys.due() is None


class Foreign:
    """A warehouse with a table that cannot be read."""

    def __init__(self) -> None:
        self.tables = self
        self.fault: Exception = RuntimeError()

    def names(self) -> list[tuple[str, str]]:
        return [("shop", "lost"), ("other", "lost")]

    def shape(self, *_: str) -> None:
        raise self.fault


@pytest.mark.long("recent/test_reading.py has deleted rows")
def test_readers_of_recent_changes_see_no_row_that_is_older_than_its_delete(
    hard: Warehouse,
) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2), gone(1, 5))
    start = hard.ends()
    hard.write(put(1, 11, 3), partition=1)
    hard.write(put(3, 30, 6), partition=1)
    hard.store(start, Step.BEGIN)
    rows = {row["id"]: row["v"] for row in hard.fresh()}
    assert rows == {2: 20, 3: 30}


@pytest.mark.long("the contract of warehouses, and the other cases")
def test_markers_are_purged_when_nothing_older_can_come(hard: Warehouse) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2), gone(1, 5))
    kept(hard, Plan(every=1, purge_deleted_hours=1)).maintain(NAME)
    markers = hard.kept.deleted.tables
    shape = markers.shape(*NAME)
    assert shape is not None
    assert markers.rows(shape).count() == 0
    assert stored(hard) == {2: 20}


@pytest.mark.long("the contract of warehouses, and the other cases")
def test_a_truncate_removes_all_rows(hard: Warehouse) -> None:
    hard.take(put(1, 10, 1), put(2, 20, 2), gone(1, 3))
    hard.take(Change(op="t", seq=5, version=None), put(3, 30, 6))
    assert stored(hard) == {3: 30}
    hard.take(put(2, 21, 4), put(1, 11, 2), partition=1)
    assert stored(hard) == {3: 30}


@pytest.mark.long("the cases above are its parts")
def test_random_changes_in_any_order_of_partitions_end_as_with_soft_deletes(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(7)
    both = [Warehouse(spark, tmp_path / name) for name in ("hard", "soft")]
    both[0].rules = HARD
    for one in both:
        one.schemas = [schema(("id", "int"), ("v", "int"))]
        one.restart()
    changes = [
        gone(key, seq) if chance.random() < 0.4 else put(key, seq, seq)
        for seq in range(1, 200)
        for key in [chance.randrange(12)]
    ]
    chance.shuffle(changes)
    for at in range(0, len(changes), 20):
        for one in both:
            one.take(*changes[at : at + 20], partition=at % 3)
        assert stored(both[0]) == {k: v for k, v in stored(both[1]).items() if v is not None}
