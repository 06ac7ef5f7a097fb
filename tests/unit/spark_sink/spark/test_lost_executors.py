"""Batches that are applied again after executors were lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException

from spark_sink.spark.lost_executors import again_if_lost, is_loss

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
