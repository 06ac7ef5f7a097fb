"""Partitions and clustering: files are laid out as the settings say, and the rows stay what they are."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_sink.errors import ForeignTable, PartitionUnfit
from spark_sink.settings.model import TableRule
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.delta.tables import unfit_sql
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_rules import TableRules
from tests.contract.warehouses import row
from tests.unit.spark_sink.conftest import Warehouse, of_delta
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    of_delta,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
SHAPE = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",))
NAME = ("shop", "t")


def laid_out(spark: SparkSession, path: Path, **rule: Any) -> Any:
    rules = TableRules([TableRule(match=".*", **rule)])
    return open_warehouse(spark, str(path), layouts=rules.layout)


def layout(spark: SparkSession, path: Path) -> tuple[list[str], list[str]]:
    (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{path}/shop/t`").collect()
    return detail.partitionColumns, detail.clusteringColumns


def merge(spark: SparkSession, warehouse: Any, *rows: dict[str, Any], is_new: bool = False) -> None:
    kinds = ", ".join(f"{name}: {kind}" for name, kind in SHAPE.all_columns)
    # One JSON literal: it starts no Python worker.
    given = f.inline(f.from_json(f.lit(json.dumps(rows)), f"array<struct<{kinds}>>"))
    warehouse.tables.merge(SHAPE, spark.range(1, numPartitions=1).select(given), is_new=is_new)


def vectors(spark: SparkSession, path: Path) -> int:
    """The files of which deletion vectors mark rows."""
    files = DeltaLog(spark, f"{path}/shop/t").files()
    return files.where("deletionVector IS NOT NULL").count()


def seen(warehouse: Any) -> list[tuple[int, int]]:
    return sorted(((one.id, one.v) for one in warehouse.tables.current(*NAME).collect()), key=str)


def test_a_table_is_clustered_at_its_start_and_by_other_columns_at_its_next_maintenance(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = laid_out(spark, tmp_path, cluster_by=["V", "no_such"])
    kept.tables.evolve(None, SHAPE)
    merge(spark, kept, row(1, 10, 1), row(2, 20, 2))
    assert layout(spark, tmp_path) == ([], ["v"])
    again = laid_out(spark, tmp_path, cluster_by=["id"])
    again.upkeep.compact(NAME)
    assert layout(spark, tmp_path) == ([], ["id"])
    merge(spark, again, row(1, 11, 3), row(3, 30, 4))
    open_warehouse(spark, str(tmp_path)).upkeep.compact(NAME)
    assert layout(spark, tmp_path) == ([], ["id"])
    laid_out(spark, tmp_path, cluster_by=[]).upkeep.compact(NAME)
    assert layout(spark, tmp_path) == ([], [])
    assert seen(again) == [(1, 11), (2, 20), (3, 30)]


@pytest.mark.long("the other case has clustering")
def test_a_table_is_partitioned_when_it_is_made_or_replaced(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = open_warehouse(spark, str(tmp_path))
    plain.tables.evolve(None, SHAPE)
    merge(spark, plain, row(1, 10, 1), row(2, 20, 2))
    kept = laid_out(spark, tmp_path, partition_by=["v"])
    with caplog.at_level(logging.WARNING, "spark_sink"):
        kept.upkeep.compact(NAME)
    assert "reload it to write its rows again table=shop.t" in caplog.text
    assert layout(spark, tmp_path) == ([], [])
    kept.tables.replace(SHAPE, kept.tables.rows(SHAPE, fixed=True))
    assert layout(spark, tmp_path) == (["v"], [])
    merge(spark, kept, row(1, 20, 3), row(3, None, 4))
    kept.upkeep.compact(NAME)
    assert layout(spark, tmp_path) == (["v"], [])
    assert seen(kept) == [(1, 20), (2, 20), (3, None)]


@pytest.mark.parametrize(
    ("deletes", "left"),
    [("hard", 0), pytest.param("soft", 1, marks=pytest.mark.long("the other parameter"))],
)
def test_what_a_deletion_vector_marks_is_removed_from_the_files_where_deletes_are_hard(
    spark: SparkSession, tmp_path: Path, deletes: str, left: int
) -> None:
    kept = laid_out(spark, tmp_path, deletes=deletes)
    kept.tables.evolve(None, SHAPE)
    # One of so many is too few for OPTIMIZE by itself.
    merge(spark, kept, *(row(key, key, 1) for key in range(50)))
    assert vectors(spark, tmp_path) == 0
    spark.sql(f"DELETE FROM delta.`{tmp_path}/shop/t` WHERE id = 7")
    assert vectors(spark, tmp_path) == 1
    kept.upkeep.compact(NAME)
    assert vectors(spark, tmp_path) == left
    merge(spark, kept, row(8, 80, 2))
    assert vectors(spark, tmp_path) == 1
    kept.upkeep.compact(NAME)
    assert vectors(spark, tmp_path) == 0
    assert dict(seen(kept)) == {key: key for key in range(50) if key != 7} | {8: 80}


def test_a_table_without_deletion_vectors_has_the_files_of_changed_rows_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = laid_out(spark, tmp_path, deletion_vectors=False)
    kept.tables.evolve(None, SHAPE)
    merge(spark, kept, row(1, 10, 1), row(2, 20, 2))
    merge(spark, kept, row(1, 11, 3))
    assert vectors(spark, tmp_path) == 0
    assert seen(kept) == [(1, 11), (2, 20)]


def commits(path: Path) -> list[str]:
    return sorted(one.name for one in (path / "shop/t/_delta_log").glob("*.json"))


def test_a_table_is_made_with_its_first_rows_in_one_commit_with_its_clustering(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = laid_out(spark, tmp_path, cluster_by=["v"])
    assert kept.tables.reads_once(SHAPE)
    merge(spark, kept, row(1, 10, 1), row(2, 20, 2), is_new=True)
    assert commits(tmp_path) == [f"{0:020}.json"]
    assert (seen(kept), kept.tables.shape(*NAME)) == ([(1, 10), (2, 20)], SHAPE)
    assert layout(spark, tmp_path) == ([], ["v"])
    first = kept.facts.last_merge(NAME)
    assert first is not None
    assert (first.rows_inserted, first.rows_updated, first.files_removed) == (2, 0, 0)
    assert (first.at_ms > 0, first.files_added > 0) == (True, True)


def test_a_partitioned_table_is_made_before_its_rows_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = laid_out(spark, tmp_path, partition_by=["v"])
    merge(spark, kept, row(1, 10, 1), row(2, 20, 2), is_new=True)
    assert len(commits(tmp_path)) == 2
    assert (seen(kept), layout(spark, tmp_path)) == ([(1, 10), (2, 20)], (["v"], []))


@pytest.mark.parametrize("left", ["_delta_log/", f"part-00000-{UUID(int=7)}-c000.snappy.parquet"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_creation_that_was_interrupted_is_made_up_for(
    spark: SparkSession, tmp_path: Path, left: str, *, is_new: bool
) -> None:
    folder = tmp_path / "shop/t"
    folder.mkdir(parents=True)
    (folder / left).mkdir() if left.endswith("/") else (folder / left).write_bytes(b"rows")
    kept = laid_out(spark, tmp_path, cluster_by=["v"])
    assert kept.tables.shape(*NAME) is None
    if not is_new:
        kept.tables.evolve(None, SHAPE)
    merge(spark, kept, row(1, 10, 1), is_new=is_new)
    assert (seen(kept), kept.tables.shape(*NAME)) == ([(1, 10)], SHAPE)
    assert layout(spark, tmp_path) == ([], ["v"])


@pytest.mark.remedy("sink.ForeignTable")
def test_another_folder_in_place_of_a_table_is_refused_and_kept_until_it_is_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "shop/t"
    spark.range(3).write.parquet(str(folder))
    kept = laid_out(spark, tmp_path)
    before = sorted(one.name for one in folder.iterdir())
    with pytest.raises(ForeignTable, match="has _SUCCESS"):
        merge(spark, kept, row(1, 10, 1), is_new=True)
    assert sorted(one.name for one in folder.iterdir()) == before
    folder.rename(tmp_path / "elsewhere")
    merge(spark, kept, row(1, 10, 1), is_new=True)
    assert seen(kept) == [(1, 10)]


_VALUES: dict[str, tuple[str, list[str]]] = {
    "s": (
        "string",
        [
            *("' '", "'a '", "'a/b'", "'%41'", "'k=v:*?'", "'\\t\\n'", "char(1)", "char(127)"),
            *("'ü€😀'", "'.'", "'..'", "'null'", "'\\\\'", "'A'", "'a'", "repeat('z', 200)"),
        ],
    ),
    "i": ("int", ["-2147483648", "0"]),
    "b": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "u": ("decimal(20,0)", ["18446744073709551615", "0"]),
    "d": ("decimal(10,2)", ["-0.10", "10.00", "0"]),
    "g": ("float", ["'-0.0'", "0", "1.17549435E-38", "3.4028235E38", "0.1"]),
    "h": ("double", ["'-0.0'", "4.9E-324", "1.7976931348623157E308", "0.1"]),
    "a": ("date", ["'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'0999-12-31'"]),
    "t": ("timestamp", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'"]),
    "n": (
        "timestamp_ntz",
        ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1000-01-01 00:00:00.000001'"],
    ),
}


@pytest.mark.long("a value that no partition can have")
def test_each_value_is_read_back_from_its_partition(spark: SparkSession, tmp_path: Path) -> None:
    """All types at once, with the text in the key; beside a table without partitions."""
    columns = tuple((name, kind) for name, (kind, _) in _VALUES.items())
    shape = Shape("shop", "t", (("id", "int"), *columns), ("id", "s"))
    rows = max(len(values) for _, values in _VALUES.values())
    given = " UNION ALL ".join(
        "SELECT "
        + ", ".join(
            [f"{number} AS id"]
            + [
                f"CAST({values[number % len(values)]} AS {kind}) AS `{name}`"
                for name, (kind, values) in _VALUES.items()
            ]
        )
        for number in range(rows)
    )

    def found(path: Path, by: list[str]) -> list[tuple[str, ...]]:
        kept = laid_out(spark, path, partition_by=by)
        kept.tables.evolve(None, shape)
        for seq in (1, 2):
            own = spark.sql(given).selectExpr(
                *("*", "'shop' AS __destination", "1L AS __epoch", f"{seq}L AS __seq"),
                *("false AS __deleted", "1 AS __schema", "1L AS __ts_ms"),
                "CAST(NULL AS map<string, string>) AS __unrepresentable",
            )
            kept.tables.merge(shape, own)
        names = [f"CAST(`{name}` AS STRING)" for name, _ in shape.columns]
        read = kept.tables.rows(shape).selectExpr(*names, "__seq")
        return sorted(map(tuple, read.collect()), key=lambda one: int(one[0]))

    by = list(_VALUES)
    there = found(tmp_path / "by", by)
    assert layout(spark, tmp_path / "by") == (by, [])
    assert len(there) == rows
    assert there == found(tmp_path / "plain", [])
    # Bytes would come back as others, so a table is not partitioned by them.
    bytes_of = Shape("shop", "b", (("id", "int"), ("v", "binary")), ("id",))
    kept = laid_out(spark, tmp_path / "plain", partition_by=["v"])
    kept.tables.evolve(None, bytes_of)
    assert kept.upkeep._delta_log(("shop", "b")).partitions() == []


@pytest.mark.remedy("sink.PartitionUnfit")
def test_a_value_that_no_partition_can_have_is_refused_by_name_and_kept_without_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    unfit = [
        "''",
        "'__HIVE_DEFAULT_PARTITION__'",
        "char(0)",
        "repeat('z', 300)",
        "repeat('é', 200)",
    ]
    fit = ["'z'", "NULL", "repeat('z', 200)", "'__hive'"]
    given = ", ".join(f"({one})" for one in (*unfit, *fit))
    judged = spark.sql(
        f"SELECT coalesce({unfit_sql('k', 'string')}, false) FROM VALUES {given} AS t(k)"
    )
    assert [row[0] for row in judged.collect()] == [True] * len(unfit) + [False] * len(fit)
    rules = TableRules([TableRule(match=".*", partition_by=("k", "b"))])
    found = Warehouse(spark, tmp_path)
    found.kept = open_warehouse(spark, str(tmp_path), layouts=rules.layout)
    found.schemas = [schema(("k", "varchar(9)"), ("id", "int"), ("v", "int"), key=("k", "id"))]
    found.restart()

    def put(key: str, value: int, seq: int) -> Change:
        return Change(op="c", seq=seq, after={"k": key, "id": 1, "v": value})

    found.take(put("a", 1, 1))
    assert layout(spark, tmp_path) == (["k"], [])
    with pytest.raises(PartitionUnfit, match="a value of k is an empty text"):
        found.take(put("", 1, 2), put("a", 2, 3))
    found.reload()
    found.take(put("", 11, 4))
    assert sorted((row["k"], row["v"]) for row in found.rows()) == [("", 11), ("a", 2)]
    assert layout(spark, tmp_path) == ([], [])
