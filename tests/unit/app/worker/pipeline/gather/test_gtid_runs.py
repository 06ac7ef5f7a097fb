"""GTIDs are collected as runs, broken by each gap, each other source and each transaction without one."""

from __future__ import annotations

from app.worker.pipeline.gather.items import GtidRuns


def test_numbers_that_follow_one_another_are_one_run() -> None:
    runs = GtidRuns()
    for source, number in (("a", 1), ("a", 2), ("a", 4), ("b", 5), ("b", 6), (None, 7), ("b", 8)):
        runs.add(source, number)
    assert runs.found() == [("a", 1, 2), ("a", 4, 4), ("b", 5, 6), ("b", 8, 8)]


def test_a_run_continues_after_it_was_asked_for() -> None:
    runs = GtidRuns()
    for number in (1, 2, 3):
        runs.add("a", number)
        assert runs.found() == [("a", 1, number)]


def test_transactions_without_gtids_are_none() -> None:
    runs = GtidRuns()
    for _ in range(3):
        runs.add(None, 0)
    assert runs.found() == []
