"""The settings that a batch is executed with, by its number of rows, and its retry after lost executors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.spark.jobs import FEW_ROWS, MANY, Pace, again_if_lost, for_many_rows, is_loss

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


LOST = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_12_0 not found!"


def failing(*failures: str) -> tuple[Callable[[], None], list[str]]:
    """An action that fails in these ways, one after the other, and what it did."""
    left, done = list(failures), list[str]()

    def act() -> None:
        done.append("tried")
        if left:
            raise PySparkException(left.pop(0))

    return act, done


def test_a_batch_is_applied_again_until_no_executor_is_lost() -> None:
    act, done = failing(LOST, "Job aborted: ExecutorLostFailure (executor 1 exited)")
    again_if_lost(act, stopped=lambda: False)
    assert len(done) == 3


def test_another_failure_is_not_tried_again() -> None:
    act, done = failing("[DIVIDE_BY_ZERO] Division by zero")
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        again_if_lost(act, stopped=lambda: False)
    assert len(done) == 1


def test_a_batch_that_always_loses_its_executors_fails_at_last() -> None:
    act, done = failing(*[LOST] * 100)
    with pytest.raises(PySparkException, match="rdd_12_0"):
        again_if_lost(act, stopped=lambda: False)
    assert len(done) == 10


def test_a_stop_ends_the_attempts() -> None:
    act, done = failing(LOST)
    with pytest.raises(PySparkException):
        again_if_lost(act, stopped=lambda: True)
    assert len(done) == 1


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("org.apache.spark.SparkException: Checkpoint block rdd_7_1 not found! Either", True),
        ("org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location", True),
        ("FetchFailed(null, shuffleId=3", True),
        ("the value FetchFailedx is no number", False),
    ],
)
def test_what_is_a_loss(text: str, *, loss: bool) -> None:
    assert is_loss(Exception(text)) == loss
