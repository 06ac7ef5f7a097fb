import dataclasses

import pytest

from demo import checks
from demo.checks import Applied, Record

_SOUND = [
    Record(
        topic="aq.shop.orders",
        partition=n % 2,
        offset=n,
        change_id=f"server:7#{n}",
        seq=n + 1,
        epoch=3,
        committed_ms=1000 * n,
    )
    for n in range(6)
]
_EXPECTED = {f"server:7#{n}" for n in range(6)}


def _but(at: int, **changed: object) -> list[Record]:
    """The sound records, one of them changed."""
    fault = dataclasses.replace(_SOUND[at], **changed)  # type: ignore[arg-type]  # as the test says
    return [*_SOUND[:at], fault, *_SOUND[at + 1 :]]


def test_sound_records_have_no_fault() -> None:
    assert checks.lost(_EXPECTED, _SOUND) == set()
    assert checks.invented(_EXPECTED, _SOUND) == []
    assert checks.duplicated(_SOUND) == {}
    assert checks.seq_faults(_SOUND) == []
    assert checks.epoch_regressions(_SOUND) == []
    assert checks.published(_EXPECTED, _SOUND) == 6


def test_a_change_that_is_not_in_kafka_is_lost() -> None:
    assert checks.lost(_EXPECTED, _SOUND[1:]) == {"server:7#0"}
    assert checks.published(_EXPECTED, _SOUND[1:]) == 5


def test_a_record_that_the_binlog_does_not_know_is_invented() -> None:
    stray = _but(2, change_id="server:8#0")
    assert checks.invented(_EXPECTED, stray) == [stray[2]]


def test_a_record_without_a_change_id_is_invented_and_its_change_lost() -> None:
    nameless = _but(2, change_id=None)
    assert checks.invented(_EXPECTED, nameless) == [nameless[2]]
    assert checks.lost(_EXPECTED, nameless) == {"server:7#2"}


def test_each_record_too_many_of_a_change_is_a_duplicate() -> None:
    assert checks.duplicated([*_SOUND, _SOUND[4], _SOUND[4]]) == {"server:7#4": 2}


def test_a_missing_number_is_a_gap_with_its_place() -> None:
    (fault,) = checks.seq_faults([*_SOUND[:2], *_SOUND[4:]])
    assert fault.startswith("seq 3 to 4 are missing before aq.shop.orders[0]@4")


def test_numbers_that_do_not_begin_with_1_are_a_fault() -> None:
    (fault,) = checks.seq_faults(_SOUND[1:])
    assert fault.startswith("the first seq is 2, not 1")


def test_a_number_used_twice_is_a_fault_that_names_both_records() -> None:
    repeated = _but(5, seq=5)
    (fault,) = checks.seq_faults(repeated)
    assert "seq 5 is in aq.shop.orders[0]@4" in fault
    assert "and in aq.shop.orders[1]@5" in fault


def test_an_epoch_that_goes_back_within_a_partition_is_a_fault() -> None:
    (fault,) = checks.epoch_regressions(_but(4, epoch=2))
    assert "from 3 to 2 at aq.shop.orders[0]@4" in fault


def test_epochs_are_compared_within_a_partition_and_by_offset() -> None:
    newer = _but(4, epoch=4)
    assert checks.epoch_regressions(reversed(newer)) == []


def test_a_key_change_counts_as_one_change_and_only_with_both_its_records() -> None:
    expected = {"server:9#0/0", "server:9#0/1"}
    delete, create = _but(0, change_id="server:9#0/0")[0], _but(1, change_id="server:9#0/1")[1]
    assert checks.published(expected, [delete, create]) == 1
    assert checks.published(expected, [delete]) == 0


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 3.0), (99, 5.0), (100, 5.0), (1, 1.0), (20, 1.0), (21, 2.0)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    percent: float, value: float
) -> None:
    assert checks.percentile([5.0, 1.0, 3.0, 2.0, 4.0], percent) == value


def test_there_is_no_percentile_of_nothing() -> None:
    assert checks.percentile([], 50) is None


def test_a_lag_runs_from_the_commit_to_the_batch_that_holds_the_record() -> None:
    applied = {
        ("aq.shop.orders", 0): [Applied(0, 4, 2500), Applied(4, 5, 6500)],
        ("aq.shop.orders", 1): [Applied(0, 9, 7000)],
    }
    assert checks.lags(_SOUND, applied) == [2.5, 6.0, 0.5, 4.0, 2.5, 2.0]


def test_a_record_that_no_batch_holds_has_no_lag() -> None:
    assert checks.lags(_SOUND, {("aq.shop.orders", 0): [Applied(0, 3, 2500)]}) == [2.5, 0.5]
