"""Borders of those transactions alone that are published in parts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.pipeline.piece import Piece
from tests.unit.app.pipeline.actions import TABLES, RowsOf, cuts, histories
from tests.unit.app.pipeline.history import Source
from tests.unit.app.pipeline.runs import (
    BORDERS,
    EVERYWHERE,
    WHOLE,
    pieces_of,
    records_of,
    rows_by_topic,
)

ORDERS = TABLES[0]
SIZES = st.sampled_from([1, 150, 600, WHOLE])


def borders(pieces: list[Piece]) -> list[Any]:
    return [record.value for record in records_of(pieces) if record.topic == BORDERS]


def in_parts(told: list[Any]) -> list[Any]:
    """What is told of transactions of which a part is told that is not all."""
    cut = {
        one["id"]
        for one in told
        if one["status"] == "END" and (one["part"], one["last"]) != (1, True)
    }
    return sorted(
        (one for one in told if one["id"] in cut),
        key=lambda one: (one["id"], one.get("part", 0)),
    )


@settings(deadline=None, max_examples=80)
@given(history=histories, gtids=st.booleans(), max_bytes=SIZES, cut=cuts)
def test_those_are_told_that_are_told_of_such_where_all_are(
    history: Any, gtids: bool, max_bytes: int, cut: Any
) -> None:
    source = Source(history, gtids=gtids)
    every = pieces_of(source, cut, gtids=gtids, max_bytes=max_bytes)
    some = pieces_of(source, cut, gtids=gtids, max_bytes=max_bytes, borders=False)
    told = borders(some)
    assert in_parts(told) == in_parts(borders(every))
    assert len(in_parts(told)) == len(told)
    assert rows_by_topic(records_of(some)) == rows_by_topic(records_of(every))


def test_a_transaction_that_comes_whole_is_not_told_and_one_in_parts_is_from_its_begin() -> None:
    one, many = (RowsOf(ORDERS, "c", ((1, 1),) * count) for count in (1, 6))
    source = Source([[one], [many]], gtids=True)
    # The first ends within the chunk that holds the first rows of the second.
    pieces = pieces_of(source, (*[False] * 2, True, *[False] * 3), max_bytes=600, borders=False)
    told = [(one["id"], one["status"], one.get("event_count")) for one in borders(pieces)]
    assert told == [
        (source.name(2), "BEGIN", None),
        (source.name(2), "END", 2),
        (source.name(2), "END", 2),
        (source.name(2), "END", 2),
    ]


def test_none_are_told_where_none_are_wanted() -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),) * 6)]], gtids=True)
    pieces = pieces_of(source, EVERYWHERE, max_bytes=1, borders=False, borders_of_parts=False)
    assert borders(pieces) == []
