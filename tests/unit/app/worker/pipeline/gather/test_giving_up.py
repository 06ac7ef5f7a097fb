"""Tables that an operator gave up: their rows are dropped, and all else is unchanged."""

from __future__ import annotations

import pytest

from app.worker.pipeline.gather.captured_tables import Unpublished
from connectors.errors import WitnessesDiffer
from connectors.mysql.ddl.show_create import create_table
from tests.unit.app.worker.pipeline.actions import Action, Ddl, RowsOf, Truncate
from tests.unit.app.worker.pipeline.gather.given_up import GIVEN_UP, orders
from tests.unit.app.worker.pipeline.gather.parked import KNOWN, LOG, ORDERS, pieces, table
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import NOWHERE, records_of

ROWS = RowsOf(ORDERS, "c", ((1, 1), (2, 2)))


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
def test_only_a_statement_that_recreates_it_brings_it_back(
    statements: list[str], *, is_read: bool
) -> None:
    between: list[list[Action]] = [[Ddl(sql)] for sql in statements]
    source = Source([[ROWS], *between, [ROWS], [Truncate(ORDERS)]], gtids=True)
    found = pieces(source, NOWHERE, GIVEN_UP)
    assert [aside for piece in found for aside in piece.tables.quarantined] == []
    # Two rows, and that it was emptied.
    assert len(orders(records_of(found))) == (3 if is_read else 0)


def test_what_it_becomes_under_another_name_is_a_table_of_its_own() -> None:
    source = Source(
        [[Ddl("RENAME TABLE log TO kept, orders TO log")], [RowsOf(LOG, "c", ((1, 1),))]],
        gtids=True,
    )
    found = pieces(source, NOWHERE, {**KNOWN, LOG: Unpublished.GIVEN_UP})
    # It is read again, and what its rows say is believed.
    assert isinstance(found[-1].error, WitnessesDiffer)
