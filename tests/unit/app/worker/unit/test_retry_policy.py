"""The action after an error, and its delay."""

import pytest

from app.worker.status import State
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import (
    AqueductError,
    CorruptEvent,
    Fenced,
    MalformedEvent,
    PositionGone,
    PreflightError,
    ServerIdConflict,
    SourceLost,
)
from connectors.mysql.position import Coordinates


def pauses(policy: ErrorPolicy, count: int) -> list[float]:
    found = [policy.decide(SourceLost()).pause for _ in range(count)]
    return [pause for pause in found if pause is not None]


def test_pauses_grow_and_stay_below_the_longest() -> None:
    found = pauses(ErrorPolicy(), 20)
    assert len(found) == 20
    assert found[0] < 1 < found[4]
    assert max(found) <= 30


def test_failures_without_end_never_end_the_retrying() -> None:
    assert len(pauses(ErrorPolicy(), 3000)) == 3000


def test_a_success_begins_the_pauses_again() -> None:
    policy = ErrorPolicy()
    pauses(policy, 10)
    policy.succeeded()
    assert pauses(policy, 1)[0] <= 0.5


def test_what_only_an_operator_can_repair_is_not_tried_again() -> None:
    decision = ErrorPolicy().decide(PositionGone())
    assert (decision.state, decision.pause) == (State.FAILED, None)


def test_who_was_fenced_steps_down() -> None:
    decision = ErrorPolicy().decide(Fenced())
    assert (decision.state, decision.pause) == (State.FENCED, 5.0)


@pytest.mark.parametrize("kind", [CorruptEvent, MalformedEvent])
def test_damage_at_the_same_place_is_tried_twice_more_and_then_left(
    kind: type[AqueductError],
) -> None:
    policy = ErrorPolicy()
    here, there = (kind(coordinates=Coordinates("b.000001", pos)) for pos in (4, 5))
    assert [policy.decide(error).state for error in (here, there, here, there)] == [
        State.RETRYING
    ] * 4
    assert policy.decide(here).state is State.FAILED


def test_publishing_what_is_before_the_damage_does_not_restart_its_count() -> None:
    policy = ErrorPolicy()
    found = []
    for _ in range(3):
        policy.succeeded()
        found.append(policy.decide(MalformedEvent(coordinates=Coordinates("b.000001", 4))).state)
    assert found == [State.RETRYING, State.RETRYING, State.FAILED]


def test_damage_at_no_known_place_is_forgotten_by_a_success() -> None:
    policy = ErrorPolicy()
    for _ in range(9):
        assert policy.decide(CorruptEvent()).state is State.RETRYING
        policy.succeeded()


def test_what_was_in_order_once_is_looked_at_again_and_what_never_was_waits_for_an_operator() -> (
    None
):
    policy = ErrorPolicy()
    revoked = PreflightError("REPLICATION SLAVE")
    assert policy.decide(revoked).state is State.FAILED
    policy.succeeded()
    assert policy.decide(revoked).state is State.RETRYING


def test_a_server_id_that_another_replica_has_is_looked_at_once_more() -> None:
    policy = ErrorPolicy()
    error = ServerIdConflict(server_id=5701)
    states = [policy.decide(error).state for _ in range(3)]
    assert states == [State.RETRYING, State.FAILED, State.FAILED]
    policy.succeeded()
    assert policy.decide(error).state is State.RETRYING
