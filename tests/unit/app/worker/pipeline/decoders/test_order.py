"""Pieces in order, numbers gapless, the same from any number of decoders."""

from typing import Any

import pytest

from app.worker.pipeline.decoders.pool import Limits
from connectors.errors import SourceLost, UnsupportedEvent
from tests.unit.app.worker.pipeline.decoders.runs import Outlet, decoders, run
from tests.unit.app.worker.pipeline.decoders.stages import ordered


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_pieces_of_a_chunk_come_together_and_its_error_after_the_last(count: int) -> None:
    orders: list[dict[str, Any]] = [{"parts": 3}, {}, {"parts": 2, "error": True}, {}]
    outlet = run(count, [ordered(number, **order) for number, order in enumerate(orders)])
    found = [(piece.first, piece.part) for piece in outlet.pieces]
    assert found == [(1, 1), (1, 2), (1, 0), (2, 0), (3, 1), (3, 0)]
    assert isinstance(outlet.error, UnsupportedEvent)


@pytest.mark.parametrize("count", [0, 2])
def test_nothing_more_of_a_chunk_is_delivered_where_nobody_wants_it(count: int) -> None:
    outlet = Outlet()
    outlet.wanted = False
    with decoders(count, outlet) as running:
        running.put(ordered(0, parts=3))
        assert outlet.waiting.wait(60)
        while running.put(ordered(1)):
            pass
    assert [piece.part for piece in outlet.pieces] == [1]


def test_a_slow_chunk_goes_to_one_and_the_others_work_on() -> None:
    slow, fast = ordered(0, decode=0.5), [ordered(n, decode=0.01) for n in range(1, 12)]
    outlet = run(2, [slow, *fast], limits=Limits(portions_each=1))
    assert [piece.first for piece in outlet.pieces] == list(range(1, 13))
    assert len({piece.pid for piece in outlet.pieces}) == 2


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_table_is_reported_once_to_each_and_in_order(count: int) -> None:
    chunks = [ordered(n, tables=[f"t{n}"], decode=0.002 * (n % 3)) for n in range(20)]
    outlet = run(count, chunks)
    for number, piece in enumerate(outlet.pieces):
        assert piece.tables == tuple(f"t{n}" for n in range(number + 1))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_before_a_portion_is_decoded_the_effects_of_all_earlier_ones_are_learned_in_order(
    count: int,
) -> None:
    portions = [
        ordered(n, does=f"s{n}" if n % 3 else "", decode=0.002 * (n % 4)) for n in range(20)
    ]
    for number, piece in enumerate(run(count, portions).pieces):
        assert piece.learned == tuple(f"s{n}" for n in range(number) if n % 3)


@pytest.mark.parametrize("count", [0, 2])
def test_numbers_continue_from_the_first_state(count: int) -> None:
    outlet = run(count, [ordered(0, 5), ordered(1, 7)], state=100)
    assert [(piece.first, piece.last) for piece in outlet.pieces] == [(101, 105), (106, 112)]


@pytest.mark.parametrize("count", [0, 2])
def test_the_error_within_a_piece_comes_after_it_and_is_the_end(count: int) -> None:
    outlet = run(count, [ordered(0), ordered(1, error=True), ordered(2), ordered(3)])
    assert [piece.first for piece in outlet.pieces] == [1, 2]
    assert isinstance(outlet.error, UnsupportedEvent)
    assert outlet.error.context == {"coordinates": "b.000001:4"}


@pytest.mark.parametrize("count", [0, 2])
def test_nothing_is_taken_once_nobody_wants_pieces(count: int) -> None:
    outlet = Outlet()
    outlet.wanted = False
    with decoders(count, outlet) as running:
        while running.put(ordered(0)):
            pass
        running.finish(SourceLost("the end"))
    assert len(outlet.pieces) == 1
    assert outlet.errors == []
