"""Any number of decoders publishes what one in the thread publishes."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from connectors.errors import SourceLost
from tests.unit.app.worker.pipeline.decoders.runs import run
from tests.unit.app.worker.pipeline.decoders.stages import ordered

PAUSES = some.sampled_from([0, 0, 0, 0.001, 0.01])

ORDERS = some.fixed_dictionaries(
    {
        "rows": some.integers(0, 50),
        "size": some.sampled_from([0, 10, 40_000, 300_000]),
        "times": some.integers(0, 3),
        "decode": PAUSES,
        "encode": PAUSES,
        "tables": some.lists(some.sampled_from("abc"), max_size=2),
    }
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(orders=some.lists(ORDERS, max_size=40), count=some.integers(1, 4))
def test_any_number_of_decoders_gives_what_one_in_the_thread_gives(
    orders: list[dict[str, Any]], count: int
) -> None:
    chunks = [ordered(number, **order) for number, order in enumerate(orders)]
    here, there = run(0, chunks), run(count, chunks)
    assert [piece.described() for piece in there.pieces] == [
        piece.described() for piece in here.pieces
    ]
    assert isinstance(there.error, SourceLost)
    after = 0
    for piece, order in zip(there.pieces, orders, strict=True):
        assert piece.first == after + 1
        after = piece.last
        assert len(piece.body) == order["size"] * order["times"]
    assert after == sum(order["rows"] for order in orders)
