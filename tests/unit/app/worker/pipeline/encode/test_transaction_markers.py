"""Transaction markers, only for transactions that are published in parts."""

from __future__ import annotations

from tests.unit.app.worker.pipeline.actions import TABLES, RowsOf
from tests.unit.app.worker.pipeline.encode.markers import marker_records
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import EVERYWHERE, pieces_of

ORDERS = TABLES[0]


def test_a_transaction_that_comes_whole_is_not_reported_and_one_in_parts_is_from_its_begin() -> (
    None
):
    one, many = (RowsOf(ORDERS, "c", ((1, 1),) * count) for count in (1, 6))
    source = Source([[one], [many]], gtids=True)
    # The first ends within the chunk that holds the first rows of the second.
    pieces = pieces_of(source, (*[False] * 2, True, *[False] * 3), max_bytes=600, markers=False)
    status_found = [
        (one["id"], one["status"], one.get("event_count")) for one in marker_records(pieces)
    ]
    assert status_found == [
        (source.name(2), "BEGIN", None),
        (source.name(2), "END", 2),
        (source.name(2), "END", 2),
        (source.name(2), "END", 2),
    ]


def test_none_are_reported_where_none_are_wanted() -> None:
    source = Source([[RowsOf(ORDERS, "c", ((1, 1),) * 6)]], gtids=True)
    pieces = pieces_of(source, EVERYWHERE, max_bytes=1, markers=False, part_markers=False)
    assert marker_records(pieces) == []
