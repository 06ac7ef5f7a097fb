"""Which rows of a table and its source are unlike, by Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_sink.jobs.load.validation import Compared
from spark_sink.warehouse.markers import in_force
from spark_sink.warehouse.shape import Shape

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SHAPE = Shape("shop", "t", (("id", "int"), ("v", "string")), ("id",))
STATE: Any = SimpleNamespace(lows={"shop": SimpleNamespace(epoch=1, seq=100)})
Row = tuple[int, str | None, str | None, int | None, bool]
"""A row's key, value, destination and seq, and whether it is the marker of a deleted row."""


def frame(spark: SparkSession, *rows: Row) -> DataFrame:
    """The rows with their bookkeeping."""
    kinds = "id int, v string, __destination string, __seq bigint, __deleted boolean"
    return spark.createDataFrame([*rows], kinds).selectExpr(
        "*", "if(__seq IS NULL, NULL, 1L) AS __epoch", "CAST(NULL AS map<string, string>) AS __unrepresentable"
    )  # fmt: skip


def unlike(
    spark: SparkSession, source: dict[int, str], held: list[Row], markers: list[Row] | None = None
) -> list[tuple[int, str]]:
    """The keys and kinds of the rows that differ; `markers` are stored beside the table."""
    compared = Compared(shape=SHAPE, wanted=SHAPE)
    read = compared.of_source(frame(spark, *((k, v, "shop", 0, False) for k, v in source.items())))
    rows = frame(spark, *held)
    table = compared.of_table(rows)
    if markers is not None:
        beside = in_force(frame(spark, *markers), rows, SHAPE)
        table = table.unionByName(compared.of_markers(beside))
    found = compared.unlike(read, table, STATE).selectExpr("get_json_object(key, '$.id')", "kind")
    return sorted((int(key), kind) for key, kind in found.collect())


def live(key: int, value: str, seq: int = 50) -> Row:
    return key, value, "shop", seq, False


def deleted(key: int, seq: int) -> Row:
    return key, None, "shop", seq, True


def test_rows_differ_unless_a_newer_change_explains_it(spark: SparkSession) -> None:
    source = {1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}
    held = [live(1, "a"), live(2, "x"), live(3, "x", 101), deleted(5, 101), live(6, "f")]
    assert unlike(spark, source, held) == [
        (2, "different"), (3, "in flight"), (4, "missing"), (5, "in flight"), (6, "extra"),
    ]  # fmt: skip


@pytest.mark.parametrize("beside", [False, True], ids=["soft", "hard"])
def test_a_key_that_was_deleted_and_inserted_again_is_there(
    spark: SparkSession, beside: bool
) -> None:
    marker = deleted(1, 10)
    held = [live(1, "a", 12)] if beside else [live(1, "a", 12), marker]
    assert unlike(spark, {1: "a"}, held, [marker] if beside else None) == []


def test_a_row_that_the_table_has_twice_is_one_too_many(spark: SparkSession) -> None:
    assert unlike(spark, {1: "a"}, [live(1, "a"), live(1, "a")]) == [(1, "extra")]
    assert unlike(spark, {1: "a"}, [live(1, "a", 60), live(1, "b")]) == [(1, "extra")]
    assert unlike(spark, {1: "a"}, [live(1, "a"), live(1, "a", 101)]) == [(1, "extra")]


def test_a_row_that_another_program_added_is_one_too_many(spark: SparkSession) -> None:
    foreign: Row = (9, "z", None, None, False)
    same: Row = (1, "z", None, None, False)
    assert unlike(spark, {1: "a"}, [live(1, "a"), foreign, same]) == [(1, "extra"), (9, "extra")]
    assert unlike(spark, {1: "a"}, [same]) == [(1, "different")]
