"""Spark's offset files, and the mapping of failures to errors."""

import pytest

from spark_sink.errors import (
    CheckpointDamaged,
    DataLost,
    MalformedRecord,
    SinkError,
    SparkFailed,
    WarehouseUnusable,
)
from spark_sink.spark.checkpoint import is_whole, parse_offsets
from spark_sink.spark.error_mapping import named, refused_record


@pytest.mark.parametrize(
    "text", ['v1\n{"batchWatermarkMs":0}\n{"t":{"0":5,"1":7}}', 'v1\n{"t":{"1":7,"0":5}}\n']
)
def test_offsets_are_read_from_the_last_line(text: str) -> None:
    assert parse_offsets(text, "f") == {("t", 0): 5, ("t", 1): 7}


@pytest.mark.parametrize("text", ["", "v1", "v1\n{", 'v1\n{"t":5}', "v1\n[]"])
def test_a_damaged_file_is_named(text: str) -> None:
    with pytest.raises(CheckpointDamaged, match="offsets/7"):
        parse_offsets(text, "offsets/7")


@pytest.mark.parametrize(
    "text",
    ['{"id":"27d9e420-b55a-429d-b903-7e0bfc7226ec"}', 'v1\n{"nextBatchWatermarkMs":0}'],
)
def test_a_file_that_is_cut_anywhere_is_not_whole(text: str) -> None:
    assert is_whole(text)
    assert not any(is_whole(text[:end]) for end in range(len(text)))
    assert not is_whole("\x00" * len(text))


@pytest.mark.parametrize(
    "text", ['\x00v1\n{"t":{"0":0}}', 'v1\n{"batchWatermarkMs":0,"conf":{"a":"b"}}\n{"t":{"0":7}}']
)
def test_offsets_that_are_cut_anywhere_are_none(text: str) -> None:
    for end in range(len(text)):
        with pytest.raises(CheckpointDamaged):
            parse_offsets(text[:end], "f")


def test_an_undecodable_record_is_named_from_sparks_message() -> None:
    message = (
        "Job aborted: [USER_RAISED_EXCEPTION] aqueduct-poison|aq.s.t|3|77|column a holds no int|"
        "aqueduct-poison SQLSTATE: P0001\n at org.apache"
    )
    assert refused_record(message) == "topic aq.s.t, partition 3, offset 77: column a holds no int"
    assert isinstance(named(RuntimeError(message)), MalformedRecord)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("x\n[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] some data may have been lost", DataLost),
        ("Incomplete log file", CheckpointDamaged),
        (
            "x\norg.apache.iceberg.exceptions.NotAuthorizedException: Not authorized",
            WarehouseUnusable,
        ),
        ("x\norg.apache.iceberg.jdbc.UncheckedSQLException: Failed to connect", WarehouseUnusable),
        ("x\norg.apache.iceberg.hive.RuntimeMetaException: Failed to connect", WarehouseUnusable),
        ("java.lang.Error: odd", SparkFailed),
    ],
)
def test_a_failure_is_one_named_line(message: str, error: type[SinkError]) -> None:
    fault = named(RuntimeError(message))
    assert type(fault) is error
    assert "\n" not in str(fault)


def test_an_unnamed_failure_says_what_to_do_and_where_its_reason_is() -> None:
    advice = named(RuntimeError("java.lang.Error: odd")).advice
    assert advice.startswith("Start the sink again: it continues where it was. If it fails in")
    assert advice.endswith("it has the details, and <log.file>.spark has Spark's own reason")


def test_an_error_of_the_jvm_without_a_further_cause_has_its_message() -> None:
    text = (
        "An error occurred while calling o141.sql.\n"
        ": org.apache.spark.sql.delta.DeltaTableFeatureException: [DELTA_FEATURES] timestampNtz.\n"
        "\tat org.apache.spark.sql.delta.DeltaErrors$.feature(DeltaErrors.scala:4266)\n"
    )
    assert "DeltaTableFeatureException: [DELTA_FEATURES] timestampNtz" in str(
        named(Exception(text))
    )
