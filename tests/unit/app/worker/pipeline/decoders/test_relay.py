"""The state is with one decoder at a time, in the order of the portions; news and effects reach each once."""

from __future__ import annotations

import pickle
from typing import Any, cast

from app.worker.pipeline.decoders.messages import Numbered, PickledState
from app.worker.pipeline.decoders.pool import Limits, PooledDecoder, Relay
from tables.history.resolved_statement import ResolvedStatement

STATE = pickle.dumps(7, protocol=5)


def workers(count: int) -> list[PooledDecoder]:
    return [PooledDecoder(cast(Any, None)) for _ in range(count)]


def test_the_state_goes_to_the_owner_of_the_next_portion_once_both_are_known() -> None:
    first, second = two = workers(2)
    relay = Relay(two, 7)
    assert relay.turn() is None
    relay.give(0, first, None)
    relay.give(1, second, None)
    assert relay.turn() == (first, PickledState(0, STATE, []))
    assert relay.turn() is None
    relay.numbered(first, Numbered(0, b"after 0", None))
    assert relay.turn() == (second, PickledState(1, b"after 0", []))


def test_news_reach_all_others_with_their_next_turn_and_once() -> None:
    first, second = two = workers(2)
    relay = Relay(two, 7)
    for number, worker in enumerate((first, first, second, second)):
        relay.give(number, worker, None)
    values = []
    for number, news in enumerate((b"a", b"b", None, None)):
        turn = relay.turn()
        assert turn is not None
        values.append(turn[1].news)
        relay.numbered(turn[0], Numbered(number, STATE, news))
    assert values == [[], [], [b"a", b"b"], []]


def test_each_decoder_learns_the_effects_of_all_earlier_portions_once() -> None:
    first, second = two = workers(2)
    relay = Relay(two, 7)
    one, other = (ResolvedStatement(type=kind) for kind in ("one", "other"))
    assert relay.give(0, first, one) == ()
    assert relay.give(1, first, other) == (one,)
    assert relay.give(2, second, None) == (one, other)
    assert relay.give(3, first, None) == (other,)
    assert relay.give(4, second, None) == ()


def test_a_decoder_takes_portions_below_its_limits_and_only_once_it_is_ready() -> None:
    (worker,) = workers(1)
    limits = Limits(portions_each=2, bytes_each=20)
    assert not worker.takes(limits)
    worker.ready = True
    assert worker.takes(limits)
    worker.sizes[0] = 20
    assert not worker.takes(limits)
    worker.sizes |= {0: 5, 1: 5}
    assert not worker.takes(limits)
