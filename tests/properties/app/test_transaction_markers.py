"""Markers of transactions published in parts are a subset of all markers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.examples import examples
from tests.unit.app.worker.pipeline.actions import cuts, histories
from tests.unit.app.worker.pipeline.encode.markers import marker_records
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import WHOLE, pieces_of, records_of, rows_by_topic

SIZES = st.sampled_from([1, 150, 600, WHOLE])


def in_parts(described: list[Any]) -> list[Any]:
    """The markers of transactions of which some, but not all, are published."""
    cut = {
        one["id"]
        for one in described
        if one["status"] == "END" and (one["part"], one["last"]) != (1, True)
    }
    return sorted(
        (one for one in described if one["id"] in cut),
        key=lambda one: (one["id"], one.get("part", 0)),
    )


@settings(deadline=None, max_examples=examples(80))
@given(history=histories, gtids=st.booleans(), max_bytes=SIZES, cut=cuts)
def test_those_are_reported_that_are_among_such_where_all_are(
    history: Any, gtids: bool, max_bytes: int, cut: Any
) -> None:
    source = Source(history, gtids=gtids)
    every = pieces_of(source, cut, gtids=gtids, max_bytes=max_bytes)
    some = pieces_of(source, cut, gtids=gtids, max_bytes=max_bytes, markers=False)
    markers = marker_records(some)
    assert in_parts(markers) == in_parts(marker_records(every))
    assert len(in_parts(markers)) == len(markers)
    assert rows_by_topic(records_of(some)) == rows_by_topic(records_of(every))
