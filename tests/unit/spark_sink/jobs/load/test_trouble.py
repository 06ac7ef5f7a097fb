"""What prevents the comparison of one table is in its result, and what prevents that of all is raised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_sink.errors import (
    ColumnClash,
    ForeignTable,
    KafkaUnreachable,
    LoadRefused,
    LoadStale,
    NotComparable,
    RowsRefused,
    SinkError,
    SourceUnreachable,
    TableUnreadable,
    UnknownSchema,
    WarehouseUnusable,
)
from spark_sink.jobs.load.table_result import TableResult
from spark_sink.jobs.load.trouble import check_key, table_trouble
from spark_sink.warehouse.shape import Shape

NAME = ("shop", "t")
SHAPE = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",))


def reason(fault: Exception, check: SinkError | None = None) -> str:
    """Why the table is not compared after a failure, after which `check` raises."""
    result = TableResult(name=NAME)

    def checked() -> None:
        if check is not None:
            raise check

    def fail() -> None:
        raise fault

    with table_trouble(result, checked):
        fail()
    return result.not_compared or ""


@pytest.mark.parametrize(
    "fault",
    [
        NotComparable("shop.t has no key", advice="Give it one"),
        TableUnreadable("shop.t: SELECT command denied (error 1142)", advice="Run GRANT SELECT"),
        RowsRefused("shop.t at the source, a date", advice="Let the worker read it"),
        UnknownSchema("shop.shop.t@3", advice="Set cleanup.policy"),
        ForeignTable("/wh/shop/t", advice="Move it away"),
    ],
)
def test_an_error_of_one_table_is_its_reason_with_what_to_do(fault: SinkError) -> None:
    assert reason(fault) == str(fault)
    assert fault.advice in reason(fault)


def test_a_reason_always_ends_with_what_to_do() -> None:
    assert reason(ColumnClash("'a' and 'A'")).endswith("docs/sink/errors.md has the errors")
    # A comparison cannot begin again with --again, as a load can.
    stale = LoadStale("column v of shop.t is gone", advice="begin again with --again")
    assert "column v of shop.t is gone. Make a new plan: python -m app" in reason(stale)


@pytest.mark.parametrize(
    "fault",
    [
        SourceUnreachable("db:3306: Socket error"),
        KafkaUnreachable("kafka:9092"),
        WarehouseUnusable("/wh"),
        LoadRefused("no sink has applied what was read of shop.t"),
    ],
)
def test_what_prevents_any_comparison_is_raised(fault: SinkError) -> None:
    with pytest.raises(type(fault)):
        reason(fault)


def test_a_failure_of_spark_is_one_of_the_table_only_if_all_that_it_needs_answers() -> None:
    broken = PySparkException("x\n[DELTA_FILE_NOT_FOUND] File part-1.parquet is gone")
    assert "shop.t: [DELTA_FILE_NOT_FOUND] File part-1.parquet is gone" in reason(broken)
    assert "run: python -m spark_sink rebuild shop.t" in reason(broken)
    # An error that is named after the checkpoint of a stream is none of it.
    assert "checkpoint" not in reason(Py4JError("Unexpected end-of-input in 0000.json"))
    for fault in (broken, Py4JError("An error occurred while calling o1.collect")):
        with pytest.raises(SourceUnreachable):
            reason(fault, SourceUnreachable("db:3306"))
    # Kafka may answer again.
    lost = PySparkException("org.apache.kafka.common.errors.TimeoutException: fetching metadata")
    with pytest.raises(KafkaUnreachable):
        reason(lost)


def test_another_key_than_that_of_the_source_is_no_failure_of_spark() -> None:
    check_key(SHAPE, replace(SHAPE, key=("ID",)))
    with pytest.raises(NotComparable, match="by id in the warehouse, and by v at the source"):
        check_key(SHAPE, replace(SHAPE, key=("v",)))
    with pytest.raises(NotComparable, match="by id, their source table in the warehouse"):
        check_key(replace(SHAPE, apart=True), SHAPE)
