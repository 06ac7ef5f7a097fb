"""Batches in flight, without Kafka."""

import pytest

from aqueduct_client.errors import OutOfOrder, StaleBatch, UnknownBatch
from aqueduct_client.in_flight import InFlight
from aqueduct_client.records import Partition

A, B = Partition("t", 0), Partition("t", 1)


def three() -> InFlight:
    batches = InFlight()
    batches.delivered({A: 0}, {A: 10})
    batches.delivered({A: 10, B: 0}, {A: 20, B: 5})
    batches.delivered({B: 5}, {B: 9})
    return batches


def test_batches_are_acknowledged_in_their_order_alone() -> None:
    batches = three()
    with pytest.raises(OutOfOrder, match="first in flight is 1"):
        batches.offsets_of(2)
    assert batches.offsets_of(1) == {A: 10}
    batches.acknowledged(1)
    assert batches.offsets_of(2) == {A: 20, B: 5}


@pytest.mark.parametrize("batch", [0, 4, 99])
def test_a_batch_that_never_was_is_unknown(batch: int) -> None:
    with pytest.raises(UnknownBatch, match=r"in flight are \[1, 2, 3\]"):
        three().offsets_of(batch)


def test_a_batch_is_acknowledged_once() -> None:
    batches = three()
    batches.acknowledged(1)
    with pytest.raises(UnknownBatch):
        batches.offsets_of(1)


def test_a_rollback_takes_a_batch_and_all_later_ones_back_to_their_first_records() -> None:
    batches = three()
    assert batches.rolled_back(2) == {A: 10, B: 0}
    assert batches.ids == (1,)
    with pytest.raises(StaleBatch, match="rolled back"):
        batches.offsets_of(3)
    assert three().rolled_back(None) == {A: 0, B: 0}


def test_a_new_id_is_never_an_old_one() -> None:
    batches = three()
    batches.rolled_back(None)
    assert batches.delivered({A: 0}, {A: 10}) == 4


def test_what_was_dropped_is_committed_with_the_batch_before_it_or_alone() -> None:
    batches = InFlight()
    batches.passed({A: 3})
    assert batches.idle_offsets() == {A: 3}
    batches.delivered({B: 0}, {B: 1})
    batches.passed({A: 8})
    assert batches.idle_offsets() == {}
    assert batches.offsets_of(1) == {A: 8, B: 1}


def test_what_was_committed_while_idle_is_not_committed_again() -> None:
    batches = InFlight()
    batches.passed({A: 3, B: 4})
    batches.committed_idle({A: 3, B: 2})
    assert batches.idle_offsets() == {B: 4}


def test_after_a_rebalance_all_are_stale() -> None:
    batches = three()
    batches.taken_back("the group has rebalanced")
    for batch in (1, 2, 3):
        with pytest.raises(StaleBatch, match=rf"rebalanced \[batch={batch}\]"):
            batches.offsets_of(batch)
