"""Differences are counted, and the first ones listed with their keys."""

from __future__ import annotations

from app.operator.validate import Validation
from app.operator.validation import table_result
from app.operator.validation.table_result import TableResult
from wire.validation import Kind


def result(**more: object) -> TableResult:
    return TableResult(name=("shop", "t"), topic="aq.shop.t", **more)  # type: ignore[arg-type]


def test_a_table_is_one_line_and_its_differences_follow() -> None:
    found = result(rows=9, most_listed=2)
    found.add(Kind.DIFFERENT, b'{"id":1}', columns=["v", "w"], literals=("1",))
    found.add(Kind.EXTRA, b'{"id":2}')
    found.add(Kind.MISSING, b'{"id":3}', literals=("3",))
    found.unjudged["rows whose images are gone"] += 4
    found.later = 5
    found.notes.append("a note")
    assert found.lines() == [
        "shop.t: rows=9 missing=1 extra=1 different=1",
        '  different: {"id":1}: v, w',
        '  extra: {"id":2}',
        "  … and 1 more",
        "  not judged: rows whose images are gone: 4",
        "  written while it was compared: 5",
        "  note: a note",
    ]
    assert (found.repairable, found.extra) == ([("1",), ("3",)], [b'{"id":2}'])
    assert not found.is_complete


def test_a_table_that_is_not_compared_is_not_called_equal() -> None:
    found = result(not_compared="it is quarantined")
    assert found.lines() == ["shop.t: not compared: it is quarantined"]
    # What was read before its trouble was equal.
    assert result(not_compared="it is locked", rows=7).lines() == [
        "shop.t: not compared: it is locked"
    ]
    whole = Validation(destination="shop", tables=(result(rows=1), found))
    assert (whole.differences, whole.is_complete) == (0, False)
    assert whole.to_json()["equal"] is False
    assert whole.lines()[-1] == "validation of shop: tables=2 not_compared=1 rows=1 differences=0"


def test_keys_for_a_repair_are_bounded() -> None:
    found = result(most_listed=0)
    for number in range(table_result.MOST_REPAIRED + 5):
        found.add(Kind.MISSING, b"{}", literals=(str(number),))
        found.add(Kind.EXTRA, b"{}")
    assert (len(found.repairable), len(found.extra), found.differences) == (10_000, 10_000, 20_010)
    assert found.listed == []


def test_what_was_found_of_a_table_before_its_trouble_is_shown() -> None:
    found = result(rows=9, not_compared="it is locked")
    found.add(Kind.DIFFERENT, b'{"id":1}', columns=["v"], literals=("1",))
    assert found.lines() == [
        "shop.t: not compared: it is locked",
        "  until then: rows=9 missing=0 extra=0 different=1",
        '  different: {"id":1}: v',
    ]
    assert not found.is_complete
