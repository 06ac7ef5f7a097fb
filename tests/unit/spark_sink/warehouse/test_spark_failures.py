"""Which failures of Spark are those of one table, and which prevent work on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from spark_sink.batch.hard_deletes import DeletedKeys
from spark_sink.errors import MalformedRecord, TableFailed
from spark_sink.spark.error_mapping import _MARK
from spark_sink.warehouse import spark_failures
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.spark_failures import is_shared, twice
from spark_sink.warehouse.table_rules import NO_RULES
from tests.harness.memory_warehouse import MemoryWarehouse

NAME = ("shop", "t")
OF_ALL = [
    "java.lang.OutOfMemoryError: Java heap space",
    "java.io.IOException: No space left on device",
    "Caused by: java.net.ConnectException: Connection refused",
    "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: timed out",
    "S3Exception: Please reduce your request rate (SlowDown, Status Code: 503)",
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
    "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group x",
    "org.apache.spark.SparkException: Job 3 cancelled because SparkContext was shut down",
    "java.lang.IllegalStateException: SparkContext has been shutdown",
    'NullPointerException: Cannot invoke "org.apache.spark.sql.classic.SparkSession.sparkContext()" because',
    "org.apache.spark.SparkException: Job 4 cancelled as part of cancellation of all jobs",
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext",
    "org.apache.iceberg.exceptions.RESTException: Error occurred while processing GET request",
    "S3Exception: (Status Code: 400, Extended Request ID: a/b=):ExpiredToken: The token has expired",
    "AmazonS3Exception: Forbidden (Service: Amazon S3; Status Code: 403; Error Code: SignatureDoesNotMatch; x)",
    "software.amazon.awssdk.services.sts.model.ExpiredTokenException: The security token is expired",
]
OF_ONE = [
    "Caused by: java.io.FileNotFoundException: File file:/wh/shop/t/part-00000.parquet does not exist",
    "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint small (v < 5) violated by row with values",
    "[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] Unsupported Delta write feature",
    "org.apache.hadoop.fs.ChecksumException: Checksum error: /wh/shop/t/metadata/v2.metadata.json",
    "java.lang.IllegalArgumentException: Invalid file format: nonsense",
    "java.nio.file.AccessDeniedException: /wh/shop/t",
    "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input in field name",
    "Caused by: java.io.FileNotFoundException: File file:/wh/shop/cancelled/part-00000.parquet does not exist",
    "Caused by: java.io.FileNotFoundException: File /wh/shop/t/status=cancelled/p.parquet does not exist",
    "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint s (status <> 'cancelled') violated by row",
    "Caused by: java.io.FileNotFoundException: File file:/wh/shop/SlowDown/part-00000.parquet does not exist",
    "Caused by: java.io.FileNotFoundException: File /wh/shop/t/code=ExpiredToken/p.parquet does not exist",
    "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint s (code <> 'SlowDown') violated by row",
    "[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] `shop`.`ExpiredToken`: unsupported Delta write feature",
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_failures, "_SECONDS", 0)


def failing(*outcomes: Exception | int) -> Callable[[], int]:
    left = list(outcomes)

    def act() -> int:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return act


@pytest.mark.parametrize("text", OF_ALL)
def test_a_failure_of_the_machine_the_network_kafka_or_a_stop_is_one_of_all_tables(
    text: str,
) -> None:
    failure = PySparkException(text)
    assert is_shared(failure)
    with pytest.raises(PySparkException) as raised:
        twice(failing(failure), NAME, MemoryWarehouse())
    assert raised.value is failure


@pytest.mark.parametrize("text", OF_ONE)
def test_a_failure_that_comes_again_is_one_of_the_table_with_the_engine_s_own_words(
    text: str,
) -> None:
    with pytest.raises(TableFailed, match=r"reload shop\.t --from-beginning") as raised:
        twice(failing(AnalysisException(text), AnalysisException(text)), NAME, MemoryWarehouse())
    assert raised.value.where == f"shop.t: {text.removeprefix('Caused by: ')}"


def test_a_failure_that_passes_makes_no_table_wait() -> None:
    began: list[str] = []
    act = failing(PySparkException(OF_ONE[0]), 7)
    assert twice(act, NAME, MemoryWarehouse(), between=lambda: began.append("again")) == 7
    assert began == ["again"]


def test_a_failure_while_the_warehouse_takes_no_file_is_not_one_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse: Any = MemoryWarehouse()
    monkeypatch.setattr(type(warehouse.notes), "make", lambda _: 1 / 0)
    act = failing(*(PySparkException(OF_ONE[0]) for _ in range(2)))
    with pytest.raises(ZeroDivisionError):
        twice(act, NAME, warehouse)


def test_a_failure_after_a_stop_and_a_record_that_is_refused_keep_their_own_names() -> None:
    failure = PySparkException(OF_ONE[0])
    with pytest.raises(PySparkException) as raised:
        twice(failing(failure), NAME, MemoryWarehouse(), stopped=lambda: True)
    assert raised.value is failure
    refused = PySparkException(f"[USER_RAISED_EXCEPTION] {_MARK}|t|0|4|x|{_MARK}")
    with pytest.raises(MalformedRecord):
        twice(failing(refused, refused), NAME, MemoryWarehouse())


def test_markers_that_cannot_be_read_are_a_matter_of_their_own_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse: Any = MemoryWarehouse()
    shapes = [Shape("shop", name, (("id", "int"),), ("id",)) for name in ("t", "u")]
    for shape in shapes:
        warehouse.deleted.tables.evolve(None, shape)
    tables = type(warehouse.deleted.tables)
    read = tables.shape

    def unread(self: Any, database: str, table: str) -> Any:
        if table == "t":
            raise PySparkException(OF_ONE[0])
        return read(self, database, table)

    keys: Any = DeletedKeys(warehouse=warehouse, rules=NO_RULES)
    monkeypatch.setattr(tables, "shape", unread)
    for _ in range(2):
        assert keys.markers(shapes[1], beside=[]) == []
        with pytest.raises(PySparkException):
            keys.markers(shapes[0], beside=[])
    monkeypatch.setattr(tables, "shape", read)
    assert keys.markers(shapes[0], beside=[]) == []
    # A table that was recreated needs none of those that could not be put back.
    monkeypatch.setattr(tables, "shape", unread)
    keys = DeletedKeys(warehouse=warehouse, rules=NO_RULES)
    with pytest.raises(PySparkException):
        keys.put_back(NAME)
    keys.discard(NAME)
    assert warehouse.deleted.tables.names() == [("shop", "u")]
