"""The old values of a table that can be converted, and those that need a time zone."""

from __future__ import annotations

import pytest

from spark_sink.warehouse.altered_rows import needs_time_zone, row_sql
from spark_sink.warehouse.shape import Shape


def shape(kind: str) -> Shape:
    return Shape("shop", "t", (("id", "int"), ("at", kind)), ("id",))


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        ("timestamp_ntz", "timestamp", ["at"]),
        ("timestamp", "timestamp_ntz", ["at"]),
        ("timestamp", "timestamp", []),
        ("timestamp_ntz", "string", []),
        ("date", "timestamp_ntz", []),
    ],
)
def test_only_between_datetime_and_timestamp_the_time_zone_matters(
    before: str, after: str, asked: list[str]
) -> None:
    assert needs_time_zone(shape(before), shape(after)) == asked


def test_what_cannot_be_converted_is_kept_aside_as_text() -> None:
    *_, value, destination, epoch, seq, deleted, version, ts_ms, aside = row_sql(
        shape("timestamp_ntz"), shape("timestamp"), time_zone="+02:00"
    )
    assert value == "to_utc_timestamp(CAST(`at` AS TIMESTAMP), '+02:00') AS `at`"
    assert [destination, epoch, seq] == ["__destination", "__epoch", "__seq"]
    assert [deleted, version, ts_ms] == ["__deleted", "__schema", "__ts_ms"]
    assert "CAST(`at` AS STRING)" in aside
    assert aside.endswith("AS __unrepresentable")
