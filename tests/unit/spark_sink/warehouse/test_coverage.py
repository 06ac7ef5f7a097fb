"""Which batches are stored as recent changes, what they then cover, and which offsets count as whole."""

from __future__ import annotations

from spark_sink.warehouse.coverage import Coverage, Cut, Step, Wholeness

A, B = ("aq.shop.a", 0), ("aq.shop.b", 1)


def test_a_cut_reads_back_as_it_was_stored() -> None:
    cut = Cut(since={A: 3}, until={A: 7, B: 2}, at_ms=5)
    assert Cut.of(cut.text()) == Cut(since={A: 3, B: 0}, until={A: 7, B: 2}, at_ms=5)


def test_recent_changes_begin_at_a_batch_and_continue_until_too_much_is_unmerged() -> None:
    coverage, found = Coverage(most_unmerged=10), []
    for start, until, merged in [
        ({A: 0}, {A: 11}, {A: 0}),
        ({A: 11}, {A: 12, B: 1}, {A: 5}),
        ({A: 12, B: 1}, {A: 13, B: 1}, {A: 5}),
        ({A: 13, B: 1}, {A: 13, B: 9}, {A: 5}),
        # What was stored before is followed by a gap.
        ({A: 13, B: 9}, {A: 14, B: 9}, {A: 13, B: 9}),
    ]:
        found.append((coverage.step(start, until, merged), coverage.since))
    assert found == [
        (Step.OMIT, None),
        (Step.BEGIN, {A: 11}),
        (Step.ADD, {A: 11}),
        (Step.OMIT, None),
        (Step.BEGIN, {A: 13, B: 9}),
    ]


def test_what_is_merged_is_removed_every_few_batches() -> None:
    coverage = Coverage(batches=2)
    coverage.step({A: 5}, {A: 6, B: 4}, {A: 2})
    assert coverage.step({A: 6, B: 4}, {A: 7, B: 4}, {A: 6, B: 3}) is Step.ADD
    assert coverage.since == {A: 5}
    assert coverage.step({A: 7, B: 4}, {A: 8, B: 4}, {A: 4, B: 3}) is Step.ADVANCE
    assert coverage.since == {A: 5, B: 3}
    coverage.step({A: 8, B: 4}, {A: 9, B: 4}, {A: 7, B: 4})
    assert coverage.step({A: 9, B: 4}, {A: 9, B: 5}, {A: 7, B: 4}) is Step.ADVANCE
    assert coverage.since == {A: 7, B: 4}


def test_a_cut_continues_what_is_merged_only_without_a_gap() -> None:
    cut = Cut(since={A: 5}, until={A: 9, B: 3}, at_ms=0)
    assert cut.continues({A: 5})
    assert cut.continues({A: 8, B: 1})
    assert not cut.continues({A: 4})
    assert not cut.continues({})


def test_what_is_merged_stays_until_it_is_settled_but_not_without_end() -> None:
    one = Coverage(most_unmerged=10, batches=1)
    assert one.step({A: 0}, {A: 2}, {}, settled={}) is Step.BEGIN
    assert one.step({A: 2}, {A: 9}, {A: 4}, settled={A: 2}) is Step.ADVANCE
    assert one.since == {A: 2}
    one.step({A: 9}, {A: 13}, {A: 12}, settled={A: 2})
    assert one.since == {A: 2}
    one.step({A: 13}, {A: 14}, {A: 13}, settled={A: 2})
    assert one.since == {A: 13}


def test_a_cut_keeps_what_is_whole() -> None:
    cut = Cut(since={A: 1}, until={A: 9}, at_ms=5, whole={A: 7})
    assert Cut.of(cut.text()) == cut
    assert Cut.of(Cut(since={A: 1}, until={A: 9}, at_ms=5).text()).whole is None


def test_what_was_shown_is_whole_once_the_ends_since_are_covered() -> None:
    wholeness = Wholeness()
    assert wholeness.covered({A: 3, B: 1}) is None
    wholeness.seen({A: 3, B: 1}, {A: 3, B: 4})
    assert wholeness.covered({A: 3, B: 3}) is None
    wholeness.seen({A: 3, B: 3}, {A: 9, B: 4})
    assert wholeness.covered({A: 3, B: 4}) == {A: 3, B: 1}
    assert wholeness.covered({A: 9, B: 4}) == {A: 3, B: 3}


def test_a_partition_that_is_not_covered_at_all_counts_if_it_has_records() -> None:
    wholeness = Wholeness()
    wholeness.seen({A: 1}, {A: 1, B: 0})
    assert wholeness.covered({A: 1}) == {A: 1}
    wholeness.seen({A: 2}, {A: 2, B: 1})
    assert wholeness.covered({A: 2}) == {A: 1}


def test_the_newest_of_many_samples_is_kept() -> None:
    wholeness = Wholeness()
    for offset in range(1, 1001):
        wholeness.seen({A: offset}, {A: 5_000 + offset})
    assert len(wholeness._samples) <= 100
    assert wholeness.covered({A: 6_000}) == {A: 1_000}
