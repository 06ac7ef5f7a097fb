"""Which of MySQL's errors are those of one table, for the sink as for the worker, and what is advised."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import AnalysisException
from pyspark.sql import SparkSession

from connectors.mysql.select import table_checks as of_worker
from spark_sink.jobs.load.server import concerns_table, sql_error, unreadable

NAME = ("shop", "t`s")
HIGHEST = 20_000


def test_an_error_is_one_of_a_table_for_both_validations_or_for_none() -> None:
    numbers = range(-1, HIGHEST)
    other = [one for one in numbers if concerns_table(one) != of_worker.concerns_table(one)]
    assert other == []
    assert sum(map(concerns_table, numbers)) < HIGHEST - 1000


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (1205, "End the session that holds the lock"),
        (3572, "End the session that holds the lock"),
        (1142, "Run GRANT SELECT ON `shop`.`t``s` TO the account of load.user"),
        (1143, "Run GRANT SELECT"),
        (1044, "Run GRANT SELECT"),
        (1317, "Find out what kills statements"),
        (3024, "raise max_execution_time"),
        (1194, "Run CHECK TABLE"),
        (145, "Run CHECK TABLE"),
        (1146, "make a new plan"),
        (1054, "make a new plan"),
        (3141, "Run a SELECT of all its columns as the account of load.user"),
    ],
)
def test_an_error_of_one_table_names_it_and_what_to_do(code: int, advice: str) -> None:
    error = unreadable(code, "what it says", NAME)
    assert error.where == f"shop.t`s: what it says (error {code})"
    assert error.code == code
    assert advice in error.advice


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_mysqls_error_is_found_among_the_causes_of_a_failure(spark: SparkSession) -> None:
    java = spark._jvm.java  # type: ignore[union-attr]
    denied = java.sql.SQLException("(conn=12) SELECT command\n denied", "42000", 1142)
    lost = java.sql.SQLNonTransientConnectionException("Socket error", "08000", 0)
    task = java.lang.RuntimeException("Job aborted", java.lang.RuntimeException("Task 0", denied))
    for fault in (denied, task):
        failed = Py4JJavaError("x", fault)
        assert sql_error(spark, failed) == (1142, "SELECT command denied")
    assert sql_error(spark, AnalysisException(origin=task)) == (1142, "SELECT command denied")
    assert sql_error(spark, Py4JJavaError("x", lost)) == (0, "Socket error")
    assert sql_error(spark, Py4JJavaError("x", java.lang.RuntimeException("Disk full"))) is None
