"""What a SELECT can have seen, and which of the server's errors concern one table."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import AnalysisException
from pyspark.sql import SparkSession

from connectors.mysql.select import table_checks as of_worker
from spark_sink.jobs.load.server import (
    SourceServer,
    concerns_table,
    owned_gtids,
    sql_error,
    unreadable,
)

A, B = "7dcd7e6c-eb2b-11f1-873d-02fc00000001", "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, set()),
        ("", set()),
        (f"{A}:131599#59", {f"{A}:131599"}),
        (f"{A}:5#12:6#13\n{B}:7#1", {f"{A}:5", f"{A}:6", f"{B}:7"}),
        # As servers print it: nothing is between a session's number and the next UUID.
        (f"{B}:1457#68{A}:93284#29:93283#46", {f"{B}:1457", f"{A}:93284", f"{A}:93283"}),
        (f"{A}:4#1:blue:5#12:red:6#13", {f"{A}:4", f"{A}:blue:5", f"{A}:red:6"}),
        (f"{A}:5#12#13", {f"{A}:5"}),
    ],
)
def test_owned_gtids_are_without_their_sessions(text: str | None, found: set[str]) -> None:
    assert owned_gtids(text) == found


class Answering(SourceServer):
    """A server that answers in an order."""

    def __init__(self, executed: str, *owned: str) -> None:
        self.answers, self.executed_now = list(owned), executed

    def one(self, sql: str) -> Any:
        if "gtid_owned" not in sql:
            return self.executed_now
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_what_is_visible_and_not_executed_yet_is_waited_for() -> None:
    server, looks = (
        Answering(f"{A}:1-5", f"{A}:5#12:6#13", f"{A}:6#13:7#14", f"{A}:7#14"),
        list[float](),
    )
    # The sixth was rolled back, and the seventh began after the SELECT.

    def stopped(seconds: float) -> bool:
        looks.append(seconds)
        return False

    assert server.seen(stopped=stopped) == f"{A}:1-5"
    assert len(looks) == 2


def test_one_that_is_owned_for_longer_counts_as_seen() -> None:
    assert Answering(f"{A}:1-5", f"{A}:9#12").seen(stopped=lambda _: True) == f"{A}:1-5,{A}:9"
    assert Answering("", "").seen(stopped=lambda _: True) == ""


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
