"""The report of a validation, the end of the command, and errors that prevent the comparison of tables."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from app.operator.validate import Validation as OfWorker
from app.operator.validation.table_result import TableResult as TableOfWorker
from spark_sink import __main__ as command
from spark_sink.errors import (
    ColumnClash,
    ComparisonIncomplete,
    ForeignTable,
    KafkaUnreachable,
    LoadRefused,
    LoadStale,
    NotComparable,
    RowsRefused,
    SinkError,
    SourceUnreachable,
    TablesDiffer,
    TableUnreadable,
    UnknownSchema,
    WarehouseUnusable,
)
from spark_sink.jobs.load.command import check_equal
from spark_sink.jobs.load.validation import TableResult, Validation, check_key, table_trouble
from spark_sink.warehouse.shape import Shape
from wire.validation import Finding, Kind


def different(key: int) -> Finding:
    return Finding(kind=Kind.DIFFERENT, key=f'{{"id":{key}}}', columns=("v", "w"))


def of(*tables: TableResult) -> Validation:
    return Validation(destinations=["east", "west"], tables=tables)


def test_differences_are_counted_and_the_first_of_each_kind_are_listed() -> None:
    result = TableResult(name=("shop", "t"), most_listed=2, rows=9)
    for key in (7, 3, 5):
        result.add(different(key))
    result.add(Finding(kind=Kind.MISSING, key='{"id":8}'))
    result.in_flight = 4
    assert list(result.lines()) == [
        "shop.t: rows=9 missing=1 extra=0 different=3",
        '  missing: {"id":8}',
        '  different: {"id":3}: v, w',
        '  different: {"id":5}: v, w',
        "  … and 1 more",
        "  not judged: rows that were still written when they were read the last time: 4",
    ]
    assert (result.differences, result.is_complete) == (4, False)


def test_a_table_that_is_not_compared_is_one_line_but_for_what_was_found_until_then() -> None:
    result = TableResult(name=("shop", "t"), not_compared="it was dropped")
    assert list(result.lines()) == ["shop.t: not compared: it was dropped"]
    result.rows = 3
    result.add(different(1))
    assert list(result.lines()) == [
        "shop.t: not compared: it was dropped",
        "  until then: rows=3 missing=0 extra=0 different=1",
        '  different: {"id":1}: v, w',
    ]


def test_the_report_has_the_members_of_the_workers() -> None:
    found = of(
        TableResult(name=("shop", "a"), rows=3),
        TableResult(name=("shop", "b"), not_compared="denied"),
    )
    body = json.loads(json.dumps(found.to_json()))
    assert {name: body[name] for name in ("equal", "differences", "complete")} == {
        "equal": False,
        "differences": 0,
        "complete": False,
    }
    assert [one["not_compared"] for one in body["tables"]] == [None, "denied"]
    worker = OfWorker(
        destination="shop", tables=(TableOfWorker(name=("shop", "a"), rows=3),)
    ).to_json()
    assert body.keys() ^ worker.keys() == {"destination", "destinations"}
    # No topic is compared, so nothing of it is stated.
    absent = {"topic", "later", "notes"}
    assert body["tables"][0].keys() == worker["tables"][0].keys() - absent
    assert {name: worker["tables"][0][name] for name in body["tables"][0]} == body["tables"][0]
    assert found.line() == "validation of east, west: tables=2 not_compared=1 rows=3 differences=0"


def test_the_end_is_that_of_the_workers_command() -> None:
    equal = TableResult(name=("shop", "a"), rows=3)
    denied = TableResult(name=("shop", "b"), not_compared="denied")
    differs = TableResult(name=("shop", "c"), rows=1)
    differs.add(different(1))
    flying = TableResult(name=("shop", "d"), rows=1, in_flight=2)
    check_equal(of(equal))
    with pytest.raises(TablesDiffer, match="1 rows") as differ:
        check_equal(of(equal, denied, differs, flying))
    with pytest.raises(ComparisonIncomplete, match="1 of 2 tables not compared") as incomplete:
        check_equal(of(equal, denied))
    with pytest.raises(ComparisonIncomplete, match="2 rows that were still written"):
        check_equal(of(equal, flying))
    assert [command._failed(one.value) for one in (differ, incomplete)] == [1, 3]


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
