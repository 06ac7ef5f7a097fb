from __future__ import annotations

import pytest

from app.worker.pipeline.formats.envelope import RowTags
from connectors.mysql.rows.compiled import Row
from tables.rules.mapping.rules import Tag

SEED = (Tag(name="f1", column="FIELD1"), Tag(name="tag1"))
COLUMNS = ("id", "field1", "field2")
OLD = '{"id":1,"field1":1,"field2":1}'
CHANGED = '{"id":1,"field1":2,"field2":1}'
OTHER = '{"id":1,"field1":1,"field2":2}'


def tags_of(*rows: Row, tags: tuple[Tag, ...] = SEED) -> list[tuple[tuple[str, ...], int]]:
    return [(found, len(run)) for found, run in RowTags(tags, COLUMNS).runs(list(rows))]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((OLD, CHANGED, "k", "k", None), ("f1", "tag1")),
        ((OLD, OTHER, "k", "k", None), ("tag1",)),
        ((OLD, OTHER, "k", "l", None), ("f1", "tag1")),
        ((None, OLD, None, "k", None), ("f1", "tag1")),
        ((OLD, None, "k", None, None), ("f1", "tag1")),
        (('{"id":1}', '{"id":1,"field1":1}', "k", "k", None), ("f1", "tag1")),
        (('{"id":1}', '{"id":1,"field2":1}', "k", "k", None), ("tag1",)),
    ],
)
def test_a_field_tag_is_on_updates_that_changed_the_field_and_on_all_others(
    row: Row, expected: tuple[str, ...]
) -> None:
    assert tags_of(row) == [(expected, 1)]


def test_neighbours_with_equal_tags_are_one_run_and_the_order_stays() -> None:
    changed: Row = (OLD, CHANGED, "k", "k", None)
    other: Row = (OLD, OTHER, "k", "k", None)
    assert tags_of(changed, changed, other, changed) == [
        (("f1", "tag1"), 2),
        (("tag1",), 1),
        (("f1", "tag1"), 1),
    ]


def test_one_name_for_two_columns_is_one_tag() -> None:
    both = (Tag(name="f", column="field1"), Tag(name="f", column="field2"))
    assert tags_of((OLD, '{"id":1,"field1":2,"field2":2}', "k", "k", None), tags=both) == [
        (("f",), 1)
    ]
