"""The ledger's arithmetic: the offsets to resume from, and when to refuse."""

import json

import pytest

from spark_sink.errors import CheckpointPastLedger
from spark_sink.warehouse.ledger import check_checkpoint_not_past_ledger, spans, starting_offsets
from spark_sink.warehouse.lost_records import lost


def test_a_batch_spans_what_moved_and_a_new_partition_starts_at_zero() -> None:
    start = {("a", 0): 5, ("a", 1): 7}
    end = {("a", 0): 9, ("a", 1): 7, ("b", 0): 3}
    assert spans(start, end) == {("a", 0): (5, 9), ("b", 0): (0, 3)}


def test_a_lost_checkpoint_starts_where_the_ledger_ends_and_new_partitions_at_their_earliest() -> (
    None
):
    start = starting_offsets({("a", 0): 5}, {("a", 0): 9, ("b", 1): 4})
    assert json.loads(start) == {"a": {"0": 5}, "b": {"1": -2}}


@pytest.mark.parametrize(
    ("earliest", "latest", "reason"),
    [
        ({("a", 0): 6}, {("a", 0): 9}, "is read up to offset 5, and Kafka has 6 to 9"),
        ({("a", 0): 0}, {("a", 0): 4}, "is read up to offset 5, and Kafka has 0 to 4"),
        ({}, {}, "is not in Kafka, or this account may not describe it"),
    ],
)
def test_topics_are_named_of_which_kafka_lacks_what_is_to_be_read_next(
    earliest: dict[tuple[str, int], int], latest: dict[tuple[str, int], int], reason: str
) -> None:
    held, more = {("a", 0): 5}, {("b", 0): 7}
    found = lost({**held, **more}, {**earliest, ("b", 0): 7}, {**latest, ("b", 0): 7})
    assert found == {"a": f"topic a, partition 0 {reason}"}
    assert lost({("a", 0): -2}, {("a", 0): 6}, {("a", 0): 9}) == {}


def test_a_checkpoint_past_the_ledger_is_refused() -> None:
    check_checkpoint_not_past_ledger({("a", 0): 5}, {("a", 0): 5}, {})
    check_checkpoint_not_past_ledger({}, {("a", 0): 5}, {("a", 0): 5})
    with pytest.raises(CheckpointPastLedger, match="checkpoint is at 6"):
        check_checkpoint_not_past_ledger({("a", 0): 5}, {("a", 0): 6}, {})
    with pytest.raises(CheckpointPastLedger, match="ledger at nothing"):
        check_checkpoint_not_past_ledger({}, {("a", 0): 1}, {})
