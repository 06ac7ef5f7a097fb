"""A warehouse from before the sink had a log of its own is continued, without a reload.

`tests/golden/warehouse.tar.gz` has the folder of `recorded`, written by the last version without the log.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.opening import open_warehouse
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic, rename
from tests.unit.spark_sink.batch.drops_and_renames.test_following import (
    COLUMNS,
    following,
    found,
    insert,
)
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
GOLDEN = Path(__file__).parents[3] / "golden/warehouse.tar.gz"
SCHEMAS = [
    *(schema(*COLUMNS, table=name) for name in "abce"),
    schema(*COLUMNS, table="e", key=("v",), version=2),
]


def recorded(warehouse: Warehouse) -> Topic:
    """A table that was renamed, one that was truncated, and one that waits; c is that of a."""
    warehouse.schemas = SCHEMAS
    topic = following(warehouse, on_drop="rename")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20), insert(3, "e", 1, 30))
    warehouse.take(Change(op="t", seq=4, table="b", version=None), insert(5, "b", 2, 21))
    topic.values.append(rename(6, ("a", "c")))
    topic.all_rows = 99
    warehouse.take(insert(7, "c", 2, 11))
    warehouse.take(insert(8, "e", 2, 31, version=2), insert(9, "b", 3, 22))
    assert warehouse.waiting("e") is not None
    return topic


def test_a_sink_continues_with_what_an_earlier_version_has_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path / "wh", filter="data")
    warehouse = Warehouse(spark, tmp_path / "wh", table_format="delta")
    assert [one.name for one in (tmp_path / "wh").glob("__log")] == []
    # A reader, before a sink of this version has started.
    before = open_warehouse(spark, str(tmp_path / "wh")).log
    state = before.applied(), before.floors(), before.ddl(), before.last(), before.last_of_sinks()
    assert state[0] == {("aq.shop.t", 0): 8}
    (floor,) = before.floors()
    assert (floor.source, floor.place) == (Source("shop", "shop", "b"), (1, 4))
    assert len(before.batches()) == 4

    assert warehouse.kept.log.make()
    after = open_warehouse(spark, str(tmp_path / "wh")).log
    assert state == (
        after.applied(), after.floors(), after.ddl(), after.last(), after.last_of_sinks()
    )  # fmt: skip
    assert after.batches() == before.batches()
    left = {one.name for one in (tmp_path / "wh").iterdir()}
    assert left.isdisjoint({"__ledger", "__floors", "__ddl", "__waits"})

    warehouse.schemas = SCHEMAS
    topic = following(warehouse, on_drop="rename")
    topic.values, topic.all_rows = [rename(6, ("a", "c"))], 99
    warehouse.records = [{"topic": "aq.shop.t", "partition": 0, "offset": n} for n in range(8)]
    assert warehouse.waiting("e") is not None
    # From before the truncate, and from before the rename.
    warehouse.take(insert(2, "b", 9, 90), insert(5, "a", 3, 12), insert(10, "b", 4, 23))
    assert found(warehouse, "a") is None
    assert found(warehouse, "c") == {1: 10, 2: 11, 3: 12}
    assert found(warehouse, "b") == {2: 21, 3: 22, 4: 23}
    assert warehouse.applier.milestones.integrity.left
