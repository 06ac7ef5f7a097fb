"""The history of a table: each change once, in the columns that the table had then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.errors import KeyChanged, TypeConflict, UnknownTable
from spark_sink.settings.model import TableRule
from spark_sink.warehouse.history import history
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.table_status import status_lines
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Warehouse:
    found = Warehouse(spark, tmp_path)
    found.schemas = [schema(("id", "int"), ("v", "int"))]
    found.rules = TableRules([TableRule(match=r"shop\.t", history=True)])
    found.restart()
    return found


def changes(warehouse: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    """The history: operation and columns, in the order of the source."""
    rows = history(warehouse.spark, warehouse.path, "shop", "t").orderBy("__seq").collect()
    return [(row["__op"], *(row[column] for column in columns)) for row in rows]


def test_each_change_is_kept_also_those_that_a_batch_folds(kept: Warehouse) -> None:
    kept.take(
        Change(op="c", seq=1, after={"id": 1, "v": 10}),
        Change(op="u", seq=2, before={"id": 1, "v": 10}, after={"id": 1, "v": 11}),
        Change(op="d", seq=3, before={"id": 1, "v": 11}),
    )
    kept.take(
        Change(op="t", seq=4, version=None),
        Change(op="c", seq=5, after={"id": 2, "v": None}),
        Change(op="c", seq=6, after={"id": 9, "v": 0}, table="other"),
    )
    expected = [("c", 1, 10), ("u", 1, 11), ("d", 1, 11), ("t", None, None), ("c", 2, None)]
    assert changes(kept, "id", "v") == expected
    kept.restart()
    kept.catch_up({})
    assert changes(kept, "id", "v") == expected
    assert [row["id"] for row in kept.rows()] == [2]
    with pytest.raises(UnknownTable):
        history(kept.spark, kept.path, "shop", "other")


def test_values_from_before_a_mask_are_named_with_their_place_until_they_are_removed(
    kept: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    columns, aside = (("id", "int"), ("mail", "text"), ("note", "text")), "t__dropped_20261126_9"
    hmac = {"id": "mail@masked:2", "initial": {"unknown": "masked by the mapping"}}
    covered = {"mail": {"hmac": "k1"}, "note": "drop"}
    kept.schemas = [schema(*columns, table=one) for one in ("t", aside, "other__dropped_1_1")]
    kept.schemas.append(schema(*columns[:2], version=2, more={"mail": hmac}, masked=covered))
    clear = {"id": 1, "mail": "clear", "note": "clear"}
    kept.take(*(Change(op="c", seq=1, after=clear, table=one)
                for one in ("t", aside, "other__dropped_1_1")))  # fmt: skip
    assert "before" not in "".join(status_lines(kept.kept))
    kept.take(Change(op="u", seq=4, before={"id": 1}, after={"id": 1, "mail": "k1:0f"}, version=2))

    def places(column: str) -> str:
        """Where `status` says that there are values, if anywhere."""
        begin = f"  column: values of {column} from before the mapping covered it are still in "
        found = [one for one in status_lines(kept.kept) if one.startswith(begin)]
        return "".join(found).removeprefix(begin).partition(": ")[0]

    both = f"the history of shop.t, shop.{aside}"
    assert (places("mail"), places("note")) == (both, both)
    assert f"column=mail: {both}" in caplog.text
    folder = f"{kept.path}/__history/shop/t"
    kept.spark.sql(f"UPDATE delta.`{folder}` SET mail = NULL WHERE __schema < 2")
    assert (places("mail"), places("note")) == (f"shop.{aside}", both)
    kept.kept.tables.drop("shop", aside)
    kept.take(Change(op="c", seq=5, after={"id": 2, "mail": "k1:1e"}, version=2))
    assert (places("mail"), places("note")) == ("", "the history of shop.t")
    assert changes(kept, "mail") == [("c", None), ("u", "k1:0f"), ("c", "k1:1e")]


def test_a_change_that_comes_twice_in_a_batch_is_kept_once(kept: Warehouse) -> None:
    first = Change(op="c", seq=1, after={"id": 1, "v": 10})
    emptied = Change(op="t", seq=2)
    kept.take(first, emptied, first, emptied)
    assert changes(kept, "id", "v") == [("c", 1, 10), ("t", None, None)]


@pytest.mark.long("its other tests have what a history keeps")
def test_a_change_that_lacks_columns_says_which(kept: Warehouse) -> None:
    kept.take(Change(op="c", seq=1, after={"id": 1, "v": 10}))
    kept.take(Change(op="u", seq=2, before={"id": 1}, after={"id": 1}, more={"absent": ["v"]}))
    assert changes(kept, "id", "v", "__absent") == [("c", 1, 10, None), ("u", 1, None, ["v"])]
    assert [(row["id"], row["v"]) for row in kept.rows()] == [(1, 10)]


@pytest.mark.long("the cases above have what a history keeps")
def test_columns_are_those_of_their_time_and_no_change_of_type_ends_it(kept: Warehouse) -> None:
    kept.take(Change(op="c", seq=1, after={"id": 1, "v": 10}))
    kept.schemas += [
        schema(("id", "int"), ("v", "bigint"), ("w", "int"), version=2),
        schema(("id", "int"), ("v", "varchar(9)"), version=3),
    ]
    kept.take(Change(op="c", seq=2, after={"id": 2, "v": 20, "w": 2}, version=2))
    with pytest.raises(TypeConflict):
        kept.take(Change(op="c", seq=3, after={"id": 3, "v": "x"}, version=3))
    # What waits comes with the reload.
    assert len(changes(kept)) == 2
    kept.reload()
    assert changes(kept, "id", "v", "w", "v__string") == [
        ("c", 1, 10, None, None), ("c", 2, 20, 2, None), ("c", 3, None, None, "x")
    ]  # fmt: skip
    kept.schemas.append(schema(("id", "int"), ("v", "varchar(9)"), key=("v",), version=4))
    with pytest.raises(KeyChanged):
        kept.take(Change(op="c", seq=4, after={"id": 4, "v": "y"}, version=4))
    kept.reload()
    assert changes(kept, "id", "v__string")[-1] == ("c", 4, "y")
