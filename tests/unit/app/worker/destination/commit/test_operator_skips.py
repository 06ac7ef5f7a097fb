"""Skips that an operator asked for: done in the transaction that passes them, and counted after its commit."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app import metrics
from app.worker.destination.commit.operator_skips import OperatorSkips
from connectors.mysql.lookup.skipped_transactions import SkippedTransaction
from connectors.mysql.position import Coordinates
from tables.state.cursor import Resume
from tables.state.operator_requests import SKIP_PART, Skips, skip_note
from tests.made import SERVER
from tests.unit.app.worker.destination.commit.made import (
    AFTER,
    BEFORE,
    BEGIN,
    END,
    GTID,
    SKIP,
    moving,
)
from tests.unit.tables.state.journal.states import state_with


def skipping(name: str = "shop") -> OperatorSkips:
    return OperatorSkips(name, state_with(SKIP).parts[SKIP_PART], SERVER)


def omitted(end: Coordinates = END) -> SkippedTransaction:
    return SkippedTransaction(GTID, BEGIN, end, Counter({30: 2, 16: 1}))


def test_a_piece_that_only_moves_is_due_once_it_passes_a_skipped_transaction() -> None:
    one = skipping()
    assert one.skipper is not None
    assert not one.is_due(moving())
    one.skipper.done.append(omitted(replace(END, pos=END.pos + 1)))
    assert not one.is_due(moving())
    one.skipper.done[:] = [omitted()]
    assert one.is_due(moving())


def test_the_record_says_where_it_was_and_how_many_events_it_had() -> None:
    one = skipping()
    assert one.skipper is not None
    one.skipper.done.append(omitted())
    done = replace(SKIP, done="b.000001:4", events=3)
    assert list(one.before(moving(), BEFORE)) == [skip_note(done)]


def test_a_skip_counts_once_and_only_after_the_commit(caplog: pytest.LogCaptureFixture) -> None:
    def counted() -> float | None:
        labels = {"destination": "skips", "type": "WRITE_ROWS", "handling": "skipped"}
        return metrics.REGISTRY.get_sample_value("aqueduct_binlog_events_total", labels)

    one = skipping("skips")
    assert one.skipper is not None
    one.skipper.done.append(omitted())
    one.before(moving(), BEFORE)
    assert (counted(), caplog.text) == (None, "")
    one.committed(moving(), AFTER)
    assert counted() == 2
    assert "was skipped with 3 event(s)" in caplog.text
    assert list(one.before(moving(), AFTER)) == []
    one.committed(moving(), AFTER)
    assert counted() == 2


def test_without_skips_nothing_is_due_or_added() -> None:
    one = OperatorSkips("shop", Skips(), SERVER)
    assert (one.skipper, one.is_due(moving()), list(one.before(moving(), BEFORE))) == (
        None,
        False,
        [],
    )


def test_the_rest_of_a_transaction_that_is_published_in_part_is_not_continued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    resume = Resume(transaction_id=GTID, rows=3, published=2, part=1)
    publisher: Any = SimpleNamespace(cursor=replace(BEFORE, resume=resume))
    with caplog.at_level(logging.WARNING):
        assert skipping().start_cursor(publisher) == BEFORE
    assert publisher.cursor == BEFORE
    assert "2 record(s)" in caplog.text
