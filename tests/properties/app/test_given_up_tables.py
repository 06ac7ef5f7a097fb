"""Rows of a table that was given up are dropped, and all other records stay the same."""

from __future__ import annotations

from hypothesis import given, settings

from tests.properties.examples import examples
from tests.unit.app.worker.pipeline.actions import Action, RowsOf, cuts, histories
from tests.unit.app.worker.pipeline.gather.given_up import GIVEN_UP, orders
from tests.unit.app.worker.pipeline.gather.parked import (
    KNOWN,
    ORDERS,
    described,
    numbers,
    pieces,
    spelled,
)
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import records_of


@settings(max_examples=examples(60), deadline=None)
@given(drawn=histories, cut=cuts)
def test_its_rows_are_dropped_and_all_others_are_what_they_would_have_been(
    drawn: list[list[Action]], cut: tuple[bool, ...]
) -> None:
    history = spelled(drawn)
    source = Source(history, gtids=True)
    plain = records_of(pieces(source, cut, KNOWN))
    found = pieces(source, cut, GIVEN_UP)
    records = records_of(found)
    # Names of changes too, which count the rows that were dropped.
    assert described(records, "aq.shop.log") == described(plain, "aq.shop.log")
    assert described(records, "aq.__ddl.shop") == described(plain, "aq.__ddl.shop")
    assert not orders(records)
    assert numbers(records) == list(range(1, len(numbers(records)) + 1))
    assert [piece.error for piece in found if piece.error] == []
    dropped = sum(
        count for one in found for (_, how), count in one.counts.events.items() if how == "given up"
    )
    assert (dropped > 0) is any(
        isinstance(action, RowsOf) and action.table == ORDERS
        for actions in history
        for action in actions
    )
