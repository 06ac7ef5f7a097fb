"""The range of a batch's keys, and that a MERGE with it finds every row that has one of them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.batch.table_merge import local
from spark_sink.text.quoting import quoted
from spark_sink.warehouse.common.merge_range import _FEW, key_bounds, range_sql
from spark_sink.warehouse.delta import tables as delta_tables
from spark_sink.warehouse.iceberg import tables as iceberg_tables
from spark_sink.warehouse.opening import Format, open_warehouse
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.conftest import FORMAT, FORMATS_LONG, spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def _shape(*key: tuple[str, str]) -> Shape:
    return Shape("shop", "t", (*key, ("v", "int")), tuple(name for name, _ in key))


def _rows(session: SparkSession, shape: Shape, *keys: tuple[Any, ...], seq: int = 1) -> DataFrame:
    names = [name for name, _ in shape.columns]
    whole = [
        {
            **dict(zip(names, (*key, seq), strict=True)), "__destination": "shop", "__epoch": 1, "__seq": seq,
            "__deleted": False, "__schema": 1, "__ts_ms": seq, "__delta": 1,
        }
        for key in keys
    ]  # fmt: skip
    fields = ", ".join(f"{quoted(name)}: {kind}" for name, kind in shape.all_columns)
    parsed = f.from_json(f.lit(json.dumps(whole, default=str)), f"array<struct<{fields}>>")
    return session.range(1, numPartitions=1).select(f.inline(parsed))


@pytest.mark.parametrize(
    ("kind", "keys", "wanted"),
    [
        ("int", (3, -7, 5), "BETWEEN -7 AND 5"),
        ("bigint", (2**63 - 1, 0), f"BETWEEN 0 AND {2**63 - 1}"),
        ("decimal(20,0)", (Decimal(2**64 - 1), Decimal(1)), f"BETWEEN 1BD AND {2**64 - 1}BD"),
        ("string", ("it's", "a\\b"), r"BETWEEN 'a\\b' AND 'it\'s'"),
        ("date", ("2026-01-01",), ""),
        ("string", ("k" * 300,), ""),
    ],
)
def test_the_range_is_from_the_least_to_the_greatest(
    spark: SparkSession, kind: str, keys: tuple[Any, ...], wanted: str
) -> None:
    shape = _shape(("id", kind))
    found = range_sql(key_bounds(shape, _rows(spark, shape, *((key,) for key in keys))))
    assert found == (f" AND t.`id` {wanted}" if wanted else "")


def test_a_key_of_several_columns_has_a_range_of_each(spark: SparkSession) -> None:
    shape = _shape(("order`s", "int"), ("at", "date"), ("line", "smallint"))
    rows = _rows(spark, shape, (1, "2026-01-01", 9), (4, "2026-01-02", 2))
    assert (
        range_sql(key_bounds(shape, rows))
        == " AND t.`order``s` BETWEEN 1 AND 4 AND t.`line` BETWEEN 2 AND 9"
    )


def test_without_rows_there_is_no_range(spark: SparkSession) -> None:
    shape = _shape(("id", "int"))
    assert range_sql(key_bounds(shape, _rows(spark, shape))) == ""


@pytest.mark.parametrize(
    ("key", "keys", "listed"),
    [
        ((("id", "int"),), [(3,), (9,), (3,), (-7,)], "t.`id` IN (-7, 3, 9)"),
        ((("id", "int"),), [(3,), (4,), (5,)], ""),
        ((("id", "string"),), [("it's",), ("a\\b",)], r"t.`id` IN ('a\\b', 'it\'s')"),
        ((("id", "decimal(20,0)"),), [(2**64 - 1,), (1,)], f"t.`id` IN (1BD, {2**64 - 1}BD)"),
        # A row outside this list would not be found where the list had one of the long ones only.
        ((("id", "string"),), [("a",), ("b" * 300,), ("c",)], ""),
        # The column with the most values excludes the most rows.
        ((("shop", "int"), ("id", "int")), [(1, 5), (9, 7), (1, 70)], "t.`id` IN (5, 7, 70)"),
        ((("id", "date"),), [("2026-01-01",)], ""),
        ((("id", "string"),), [("a",), ("a",)], ""),
        ((("id", "int"),), [(number * 2,) for number in range(_FEW + 1)], ""),
    ],
)
def test_the_keys_of_a_small_batch_are_listed_for_a_large_table(
    spark: SparkSession, key: tuple[tuple[str, str], ...], keys: list[tuple[Any, ...]], listed: str
) -> None:
    shape = _shape(*key)
    bounds = key_bounds(shape, _rows(spark, shape, *keys), is_large=True)
    found = range_sql(bounds)
    assert found.partition(" IN ")[0].endswith(listed.partition(" IN ")[0])
    assert ("IN (" in found) is bool(listed)
    assert listed in found
    without = [replace(bound, values=frozenset()) for bound in bounds]
    assert range_sql(without) == range_sql(key_bounds(shape, _rows(spark, shape, *keys)))


def test_the_keys_of_a_log_are_not_listed(spark: SparkSession) -> None:
    shape = Shape("shop", "t", (("id", "int"), ("v", "int")), ())
    assert " IN " not in range_sql(
        key_bounds(shape, _rows(spark, shape, (1,), (9,)), is_large=True)
    )


def test_rows_in_the_driver_are_listed_without_a_job(spark: SparkSession) -> None:
    shape = _shape(("id", "int"))
    rows = local(_rows(spark, shape, (3,), (9,)))
    (bound,) = key_bounds(shape, rows, is_large=True)
    assert bound.values == {3, 9}
    plan = rows.select("id").limit(1)._jdf.queryExecution().executedPlan().toString()
    assert plan.startswith("LocalTableScan")


TEXTS = ("", "A", "a", "z" * 150, "é", "Ω" * 40, "\uffee", "🚀", "🚀" * 40)
"""The bounds of long texts are cut, and ordered by bytes as Spark does."""
OF_TEXTS = ("string",), tuple((text,) for text in TEXTS)


NUMBERS = (-(2**31), -1, 0, 7, 2**31 - 1, 8, 9, 10, 11)
DECIMALS = tuple(map(Decimal, (0, 2**63, 2**64 - 1, 1, 2, 3, 4, 5, 6)))
SINGLE = [
    ("int", NUMBERS[:5]),
    ("decimal(20,0)", DECIMALS[:3]),
    ("string", TEXTS),
]


@pytest.mark.parametrize(
    ("kinds", "keys"),
    [
        # The range has a condition for each column: a wrong one of any kind excludes rows.
        pytest.param(
            ("int", "decimal(20,0)", "string"),
            tuple(zip(NUMBERS, DECIMALS, TEXTS, strict=True)),
            id="all",
        ),
        *(
            pytest.param(
                (kind,),
                tuple((value,) for value in values),
                id=kind,
                marks=pytest.mark.long("a key of all three"),
            )
            for kind, values in SINGLE
        ),
    ],
)
def test_a_merge_finds_every_row_that_has_a_key_of_the_batch(
    spark: SparkSession, tmp_path: Path, kinds: tuple[str, ...], keys: tuple[tuple[Any, ...], ...]
) -> None:
    _check_merges(spark, tmp_path, kinds, keys, table_format=FORMAT)


def test_a_merge_finds_them_in_a_large_table_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (delta_tables, iceberg_tables):
        monkeypatch.setattr(module, "LARGE", 1)
    _check_merges(spark, tmp_path, *OF_TEXTS, table_format=FORMAT)


@pytest.mark.skipif(FORMAT == "iceberg", reason="is the test above in that format")
@pytest.mark.long("the same in Delta; the key ranges are those of every format")
def test_a_merge_into_iceberg_finds_every_text(spark: SparkSession, tmp_path: Path) -> None:
    _check_merges(spark, tmp_path, *OF_TEXTS, table_format="iceberg")


def _check_merges(
    spark: SparkSession,
    folder: Path,
    kinds: tuple[str, ...],
    keys: tuple[tuple[Any, ...], ...],
    *,
    table_format: Format,
) -> None:
    shape = _shape(*((f"id{number}", kind) for number, kind in enumerate(kinds)))
    tables = open_warehouse(spark, str(folder), table_format=table_format).tables
    tables.evolve(None, shape)
    for half in (keys[::2], keys[1::2]):  # a file of each
        tables.merge(shape, _rows(spark, shape, *half))
    tables.merge(shape, _rows(spark, shape, keys[-1], seq=2))
    tables.merge(shape, _rows(spark, shape, *keys, seq=100))
    found = [
        tuple(row[name] for name in (*shape.key, "v"))
        for row in tables.current("shop", "t").collect()
    ]
    assert sorted(map(str, found)) == sorted(str((*key, 100)) for key in keys)


@pytest.mark.parametrize("table_format", FORMATS_LONG)
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "log"])
def test_a_merge_reads_no_file_without_a_key_of_the_batch(
    spark: SparkSession, tmp_path: Path, keyed: bool, table_format: Format
) -> None:
    shape = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",) if keyed else ())
    tables = open_warehouse(spark, str(tmp_path), table_format=table_format).tables
    tables.evolve(None, shape)
    tables.merge(shape, _rows(spark, shape, (1,), seq=1))
    (file,) = (tmp_path / "shop/t").rglob("*.parquet")
    # To read it would fail.
    file.unlink()
    tables.merge(shape, _rows(spark, shape, (100,), seq=100))
    assert len(list((tmp_path / "shop/t").rglob("*.parquet"))) == 1
