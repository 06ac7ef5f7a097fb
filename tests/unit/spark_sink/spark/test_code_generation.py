"""The settings that a batch is executed with, by its number of rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.spark.code_generation import FEW_ROWS, MANY, Pace, for_many_rows

_STAGE = "spark.sql.codegen.wholeStage"


class _Session:
    """A session whose settings can be read and set."""

    def __init__(self) -> None:
        self.held: dict[str, str] = dict(FEW_ROWS)
        self.conf = SimpleNamespace(set=self.held.__setitem__)
        self.sparkContext = SimpleNamespace(defaultParallelism=8)


def _kept(session: Any, *sizes: int, **given: str) -> dict[str, str]:
    for rows in sizes:
        Pace(given={key.replace("_", "."): value for key, value in given.items()}).keep(
            session, rows
        )
    return dict(session.held)


def test_many_rows_get_generated_programs_and_all_cores() -> None:
    held = _kept(_Session(), MANY)
    assert held[_STAGE] == "true"
    assert held["spark.sql.codegen.factoryMode"] == "FALLBACK"
    assert held["spark.sql.shuffle.partitions"] == "8"


def test_few_rows_after_many_are_interpreted_again() -> None:
    assert _kept(_Session(), MANY, MANY - 1) == FEW_ROWS


@pytest.mark.spark
def test_a_session_for_many_rows_is_set_for_them_but_for_what_was_set_otherwise(
    spark: SparkSession,
) -> None:
    session = for_many_rows(spark)
    assert session.conf.get(_STAGE) == "true"
    assert spark.conf.get(_STAGE) == "false"
    given = spark.newSession()
    given.conf.set("spark.sql.shuffle.partitions", "7")
    given.conf.set("spark.sql.catalog.x.type", "hadoop")
    held = for_many_rows(given)
    assert held.conf.get(_STAGE) == "true"
    assert held.conf.get("spark.sql.shuffle.partitions") == "7"
    assert held.conf.get("spark.sql.catalog.x.type") == "hadoop"
    assert given.conf.get(_STAGE) == "false"


def test_what_the_operator_has_set_stays() -> None:
    held = _kept(_Session(), MANY, spark_sql_shuffle_partitions="3")
    assert held["spark.sql.shuffle.partitions"] == FEW_ROWS["spark.sql.shuffle.partitions"]
    assert held[_STAGE] == "true"
