"""Rows that rules publish: what an update becomes that enters or leaves the filter."""

from __future__ import annotations

import pytest

from app.worker.pipeline.gather.row_selection import RowSelection
from connectors.errors import RuleImpossible
from connectors.mysql.rows.compiled import SPLIT, Row
from tables.rules.mapping.rules import Rules
from wire.table_version import Column, Definition

WRITE, UPDATE, DELETE = 30, 31, 32
IN, OUT = '{"id":1,"n":5}', '{"id":1,"n":-5}'
DEFINITION = Definition(
    columns=tuple(
        Column(name=name, type="int", nullable=True, charset=None) for name in ("id", "n")
    ),
    primary_key=("id",),
)


def selected(
    *rows: Row, kind: int = UPDATE, row_filter: str = "n > 0", operations: tuple[str, ...] = ()
) -> list[tuple[int, list[Row], int]]:
    rules = Rules(row_filter=row_filter, operations=operations)
    selection = RowSelection.of(("shop", "t"), rules, DEFINITION)
    assert selection is not None
    return [(one.event_type, one.rows, one.size) for one in selection.runs(list(rows), kind)]


ENTERS: Row = (OUT, IN, "k", "k", None)
LEAVES: Row = (IN, OUT, "k", "k", None)
STAYS: Row = (IN, IN, "k", "k", None)
NEVER: Row = (OUT, OUT, "k", "k", None)


def test_an_update_that_enters_the_filter_is_an_insert_and_one_that_leaves_it_a_delete() -> None:
    assert selected(STAYS, ENTERS, NEVER, NEVER, LEAVES) == [
        (UPDATE, [STAYS], 1),
        (WRITE, [(None, IN, None, "k", None)], 1),
        (0, [], 2),
        (DELETE, [(IN, None, "k", None, None)], 1),
    ]


def test_operations_are_those_that_subscribers_see() -> None:
    assert selected(STAYS, ENTERS, operations=("insert",)) == [
        (0, [], 1),
        (WRITE, [(None, IN, None, "k", None)], 1),
    ]
    assert selected(STAYS, ENTERS, row_filter="", operations=("delete",)) == [(0, [], 2)]


def test_an_insert_or_delete_passes_by_its_one_image() -> None:
    inserted: Row = (None, IN, None, "k", None)
    assert selected(inserted, (None, OUT, None, "k", None), kind=WRITE) == [
        (WRITE, [inserted], 1),
        (0, [], 1),
    ]


def test_each_half_of_a_key_change_keeps_its_own_marks() -> None:
    marks = f'"replaced":["a"]{SPLIT}"replaced":["b"]'
    assert selected((IN, OUT, "k", "l", marks)) == [
        (DELETE, [(IN, None, "k", None, '"replaced":["a"]')], 1)
    ]
    assert selected((OUT, IN, "k", "l", marks)) == [
        (WRITE, [(None, IN, None, "l", '"replaced":["b"]')], 1)
    ]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (('{"id":1}', IN, "k", "k", None), "lacks column 'n'"),
        ((OUT, IN, "k", "k", '"absent":["x"]'), "enters the row filter"),
    ],
)
def test_a_partial_image_that_does_not_suffice_quarantines_the_table(row: Row, fault: str) -> None:
    with pytest.raises(RuleImpossible, match=f"{fault}.*binlog_row_image = FULL"):
        selected(row)


def test_rules_without_a_filter_select_nothing() -> None:
    assert RowSelection.of(("shop", "t"), Rules(columns=("id",)), DEFINITION) is None
