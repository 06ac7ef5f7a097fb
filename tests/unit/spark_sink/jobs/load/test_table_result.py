"""The report of a validation of the warehouse: text, JSON, and the end of the command."""

from __future__ import annotations

import json

import pytest

from app.operator.validate import Validation as OfWorker
from app.operator.validation.table_result import TableResult as TableOfWorker
from spark_sink import __main__ as command
from spark_sink.errors import ComparisonIncomplete, TablesDiffer
from spark_sink.jobs.load.command import check_equal
from spark_sink.jobs.load.table_result import TableResult, Validation
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
