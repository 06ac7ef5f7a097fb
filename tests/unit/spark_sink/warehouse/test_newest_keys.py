"""Batches of new keys are added without a search for rows that match, and only those."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_sink.spark.files import Files
from spark_sink.spark.java import java_class
from spark_sink.text.quoting import RELOAD
from spark_sink.warehouse.common.merge_range import LARGE, Bound
from spark_sink.warehouse.delta.tables import NewestKeys
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.conftest import of_delta

SHAPE = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",))


class Log:
    """The checksums of a table's commits."""

    def __init__(self, *greatest: dict[str, Any] | None) -> None:
        self.text: str | None = json.dumps(
            {
                "metadata": {
                    "schemaString": json.dumps({"fields": [field("id", "col-1"), field("n")]})
                },
                "allFiles": [
                    {} if one is None else {"stats": json.dumps({"maxValues": one})}
                    for one in greatest
                ],
            }
        )
        self.reads = 0
        self.version = 5

    def read(self, path: str) -> str | None:
        assert path == f"t/_delta_log/{self.version:020}.crc"
        self.reads += 1
        return self.text


def field(name: str, physical: str | None = None) -> dict[str, Any]:
    mapped = {"delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "metadata": mapped}


def keys(log: Log) -> NewestKeys:
    return NewestKeys(cast(Files, log))


@pytest.mark.parametrize(
    ("greatest", "least", "expected"),
    [
        ([], 1, True),
        ([{"col-1": 7}, {"col-1": 9}], 10, True),
        ([{"col-1": 7}, {"col-1": 9}], 9, False),
        ([{"col-1": 7}, {"n": 9}], 10, False),
        ([{"col-1": 7}, None], 10, False),
        ([{"col-1": 18446744073709551614}], Decimal(18446744073709551615), True),
        # By bytes of UTF-8, as Spark has it, and not by UTF-16.
        ([{"col-1": "\uffee"}], "\U0001f600", True),
        ([{"col-1": "b"}], "B", False),
    ],
)
def test_a_key_is_past_if_it_is_greater_than_those_of_all_files(
    greatest: list[Any], least: Any, expected: bool
) -> None:
    bound = Bound("id", least, least)
    assert keys(Log(*greatest)).are_past("t", 5, [bound]) is expected


def test_one_column_of_the_key_is_enough() -> None:
    found = keys(Log({"col-1": 7, "n": 3}))
    assert found.are_past("t", 5, [Bound("id", 2, 9), Bound("n", 4, 4)])
    assert not keys(Log({"col-1": 7, "n": 3})).are_past("t", 5, [])


@pytest.mark.parametrize("text", [None, "{", '{"metadata": null}'])
def test_without_the_statistics_nothing_is_known(text: str | None) -> None:
    log = Log()
    log.text = text
    assert not keys(log).are_past("t", 5, [Bound("id", 2, 9)])


def test_what_is_known_follows_the_batches_and_ends_with_another_commit() -> None:
    log = Log({"col-1": 7})
    found = keys(log)
    assert found.are_past("t", 5, [Bound("id", 8, 12)])
    found.merged("t", 6, [Bound("id", 8, 12)])
    assert not found.are_past("t", 6, [Bound("id", 12, 20)])
    found.merged("t", 7, [Bound("id", 3, 9)])
    assert found.are_past("t", 7, [Bound("id", 13, 20)])
    assert log.reads == 1
    found.merged("t", 9, [Bound("id", 13, 20)])
    log.text = None
    with pytest.raises(AssertionError):
        found.are_past("t", 9, [Bound("id", 21, 21)])


def test_a_small_table_is_looked_at_again_after_some_commits_and_a_large_one_never() -> None:
    log = Log()
    found = keys(log)
    log.text = json.dumps({"tableSizeBytes": LARGE - 1})
    assert not found.are_many("t", 5)
    log.text = json.dumps({"tableSizeBytes": LARGE})
    assert not found.are_many("t", 54)
    log.version = 55
    assert found.are_many("t", 55)
    assert found.are_many("t", 900)
    assert log.reads == 2


def test_without_a_checksum_a_table_is_small() -> None:
    log = Log()
    log.text = None
    assert not keys(log).are_many("t", 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"numFiles": 0}', True),
        ('{"numFiles": 1}', False),
        ("{}", False),
        ("{", False),
        (None, False),
    ],
)
def test_a_table_is_empty_only_if_its_checksum_says_so(text: str | None, expected: bool) -> None:
    log = Log()
    log.text = text
    found = keys(log)
    assert found.are_none("t", 5) is expected
    found.are_none("t", 5)
    assert log.reads == (2 if expected else 1)


def rows(spark: SparkSession, start: int, end: int, seq: int) -> DataFrame:
    values = {
        "id": "id",
        "v": str(seq),
        "__destination": "'shop'",
        "__epoch": "1",
        "__seq": str(seq),
        "__deleted": "false",
    }
    columns = (f"CAST({values.get(n, 'NULL')} AS {kind}) AS {n}" for n, kind in SHAPE.all_columns)
    return spark.range(start, end, numPartitions=1).selectExpr(*columns)


@of_delta
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.long("the next test has a commit that comes between")
def test_rows_of_new_keys_are_only_added_unless_another_commit_comes_between(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other = (open_warehouse(spark, str(tmp_path)).tables for _ in range(2))
    kept.evolve(None, SHAPE)
    for start in (0, 10):
        kept.merge(SHAPE, rows(spark, start, start + 10, 1))
    kept.merge(SHAPE, rows(spark, 19, 21, 2))
    assert searched(spark, tmp_path) == [True, False, False]
    assert seen(kept) == {**dict.fromkeys(range(19), 1), 19: 2, 20: 2}

    after_asking(monkeypatch, "are_past", lambda: other.merge(SHAPE, rows(spark, 21, 23, 3)))
    kept.merge(SHAPE, rows(spark, 21, 22, 4))
    assert {key: v for key, v in seen(kept).items() if key > 20} == {21: 4, 22: 3}


@of_delta
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_rows_for_an_empty_table_are_computed_once_and_searched_for_if_another_commit_comes_between(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other = (open_warehouse(spark, str(tmp_path)).tables for _ in range(2))
    kept.evolve(None, SHAPE)
    assert kept.reads_once(SHAPE)
    computed = spark.sparkContext.accumulator(0)

    def counted(one: Any) -> Any:
        computed.add(1)
        return one

    source = rows(spark, 0, 10, 1)
    kept.merge(SHAPE, spark.createDataFrame(source.rdd.map(counted), source.schema))
    assert computed.value == 10
    assert not kept.reads_once(SHAPE)
    assert seen(kept) == dict.fromkeys(range(10), 1)

    second = replace(SHAPE, table="u")
    other.evolve(None, second)
    after_asking(monkeypatch, "are_none", lambda: other.merge(second, rows(spark, 0, 2, 3)))
    kept.merge(second, rows(spark, 1, 3, 4))
    assert seen(kept, "u") == {0: 3, 1: 4, 2: 4}


@of_delta
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_what_is_known_of_a_table_ends_with_it(spark: SparkSession, tmp_path: Path) -> None:
    kept = open_warehouse(spark, str(tmp_path)).stage
    kept.replace(SHAPE, rows(spark, 0, 10, 1))
    kept.merge(SHAPE, rows(spark, 10, 12, 2))
    kept.drop("shop", "t")
    # The versions of the next table of that name begin again.
    kept.replace(SHAPE, rows(spark, 0, 50, 3))
    told = replace(SHAPE, comments=(("v", "x"),))
    kept.evolve(SHAPE, told)
    kept.merge(told, rows(spark, 40, 51, 4))
    assert seen(kept)[40] == 4

    # Also if it was removed by hand, and its first rows make the next table.
    shutil.rmtree(tmp_path / RELOAD / "shop" / "t")
    java_class(spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    kept.merge(SHAPE, rows(spark, 0, 90, 5), is_new=True)
    kept.evolve(SHAPE, told)
    kept.evolve(told, SHAPE)
    kept.merge(SHAPE, rows(spark, 60, 61, 6))
    assert seen(kept)[60] == 6


def after_asking(
    monkeypatch: pytest.MonkeyPatch, method: str, commits: Callable[[], object]
) -> None:
    """Has another writer commit once a merge has asked for the keys, and before it acts on the answer."""
    asked = getattr(NewestKeys, method)

    def late(self: NewestKeys, *args: Any) -> bool:
        found: bool = asked(self, *args)
        monkeypatch.setattr(NewestKeys, method, asked)
        commits()
        return found

    monkeypatch.setattr(NewestKeys, method, late)


def seen(tables: Any, table: str = "t") -> dict[int, int]:
    found = tables.current("shop", table).collect()
    assert len({row.id for row in found}) == len(found)
    return {row.id: row.v for row in found}


def searched(spark: SparkSession, path: Path) -> list[bool]:
    """Whether each MERGE, newest first, has a clause for rows that match."""
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{path}/shop/t`").where("operation = 'MERGE'")
    return [row.operationParameters["matchedPredicates"] != "[]" for row in commits.collect()]
