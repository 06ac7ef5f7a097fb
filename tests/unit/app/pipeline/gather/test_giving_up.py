"""Tables that a person gave up: what comes of them is dropped, and nothing else is another for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from app.pipeline.gather.captured_tables import GivenUp, Schema
from connectors.errors import WitnessesDiffer
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.show_create import create_table
from tests.unit.app.pipeline.actions import Action, Ddl, RowsOf, Truncate, cuts, histories
from tests.unit.app.pipeline.gather.test_parked_event import (
    KNOWN,
    LOG,
    ORDERS,
    WAITING,
    numbers,
    pieces,
    spelled,
    table,
    told,
)
from tests.unit.app.pipeline.history import Source
from tests.unit.app.pipeline.runs import NOWHERE, Record, records_of

GIVEN_UP: dict[TableName, Schema] = {**KNOWN, ORDERS: GivenUp()}
ROWS = RowsOf(ORDERS, "c", ((1, 1), (2, 2)))


def orders(records: list[Record]) -> list[Record]:
    return [record for record in records if record.topic in ("aq.shop.orders", WAITING)]


@settings(max_examples=60, deadline=None)
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
    assert told(records, "aq.shop.log") == told(plain, "aq.shop.log")
    assert told(records, "aq.__ddl.shop") == told(plain, "aq.__ddl.shop")
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


@pytest.mark.parametrize(
    ("statements", "is_read"),
    [
        ([], False),
        (["ALTER TABLE orders ADD z INT"], False),
        (["ALTER TABLE orders FROBNICATE"], False),
        (["DROP TABLE orders", create_table(ORDERS, table(ORDERS))], True),
        (
            ["CREATE TABLE made LIKE orders", "DROP TABLE orders", "RENAME TABLE made TO orders"],
            True,
        ),
    ],
)
def test_only_a_statement_that_makes_it_anew_brings_it_back(
    statements: list[str], *, is_read: bool
) -> None:
    between: list[list[Action]] = [[Ddl(sql)] for sql in statements]
    source = Source([[ROWS], *between, [ROWS], [Truncate(ORDERS)]], gtids=True)
    found = pieces(source, NOWHERE, GIVEN_UP)
    assert [aside for piece in found for aside in piece.tables.set_aside] == []
    # Two rows, and that it was emptied.
    assert len(orders(records_of(found))) == (3 if is_read else 0)


def test_what_it_becomes_under_another_name_is_a_table_of_its_own() -> None:
    source = Source(
        [[Ddl("RENAME TABLE log TO kept, orders TO log")], [RowsOf(LOG, "c", ((1, 1),))]],
        gtids=True,
    )
    found = pieces(source, NOWHERE, {**KNOWN, LOG: GivenUp()})
    # It is read again, and what its rows say is believed.
    assert isinstance(found[-1].error, WitnessesDiffer)
