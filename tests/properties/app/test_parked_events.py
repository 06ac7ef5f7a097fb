"""Parked events are published, when their table is back, as if they had never waited."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.worker.pipeline.gather.captured_tables import Unpublished
from connectors.mysql.ddl.definition import Table
from tables.state.quarantine import Outcome
from tests.properties.examples import examples
from tests.unit.app.worker.pipeline.actions import Action, Ddl, RowsOf, Truncate, cuts, histories
from tests.unit.app.worker.pipeline.gather.parked import (
    KNOWN,
    ORDERS,
    announced,
    described,
    numbers,
    pieces,
    released,
    spelled,
    table,
    waiting_in,
)
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import WHOLE, records_of


def as_of_first_rows(history: list[list[Action]]) -> Table:
    """What an operator would give: the definition with which the first rows were written."""
    width = 2
    for action in (action for actions in history for action in actions):
        if isinstance(action, RowsOf) and action.table == ORDERS:
            break
        width += isinstance(action, Ddl) and action.widens == ORDERS
    return table(ORDERS, width)


@settings(max_examples=examples(80), deadline=None)
@given(drawn=histories, cut=cuts, batch=cuts, max_bytes=st.sampled_from([600, WHOLE]))
@example(
    drawn=[
        [Truncate(ORDERS)],
        [RowsOf(ORDERS, "c", ((1, 1),)), RowsOf(ORDERS, "u", ((1, 2),) * 2)],
    ],
    cut=(False,),
    batch=(False,) * 3,
    max_bytes=600,
)
@example(
    drawn=[
        [
            RowsOf(ORDERS, "c", ((1, 1),) * 2),
            Ddl("ALTER TABLE orders ADD c INT", ORDERS),
            RowsOf(ORDERS, "u", ((1, 2),) * 2),
        ]
    ],
    cut=(False,),
    batch=(False,) * 2,
    max_bytes=600,
)
def test_what_waited_comes_back_as_if_it_had_never_waited(
    drawn: list[list[Action]], cut: tuple[bool, ...], batch: tuple[bool, ...], max_bytes: int
) -> None:
    history = spelled(drawn)
    source = Source(history, gtids=True)
    plain = records_of(pieces(source, cut, KNOWN))
    parted = records_of(pieces(source, cut, {**KNOWN, ORDERS: Unpublished.QUARANTINED}))
    assert described(parted, "aq.shop.log") == described(plain, "aq.shop.log")
    assert described(parted, "aq.__ddl.shop") == described(plain, "aq.__ddl.shop")
    assert not described(parted, "aq.shop.orders")
    assert numbers(parted) == list(range(1, len(numbers(parted)) + 1))

    for given_, by_mapping in ((as_of_first_rows(history), False), (table(ORDERS), True)):
        back, entry = released(
            source,
            waiting_in(parted),
            given_,
            each=len(batch),
            max_bytes=max_bytes,
            by_mapping=by_mapping,
        )
        assert described(back, "aq.shop.orders") == described(plain, "aq.shop.orders")
        # Each version that its statements announced while it was published is announced now.
        versions = [one for one in announced(plain, by_statements=True) if one[0] == ORDERS]
        assert announced(back) == versions
        assert {record.topic for record in back} <= {"aq.shop.orders", "aq.__ddl.shop"}
        assert numbers(back) == list(range(1, len(numbers(back)) + 1))
        assert entry.outcome is not Outcome.REFUSED
