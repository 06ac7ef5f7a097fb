"""The progress shown after a commit: cursor, rows, lag and duration."""

from __future__ import annotations

import logging

import pytest

from app import metrics
from app.worker.destination.commit.progress import Progress
from app.worker.destination.takeover.timings import Phases
from app.worker.status import DestinationStatus
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import SourceLost
from tests.unit.app.worker.destination.commit.made import AFTER, BEFORE, moving, piece


def value(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, {"destination": "progress", **labels})


def test_a_commit_moves_cursor_and_lag_counts_rows_and_ends_the_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, policy = DestinationStatus("progress"), ErrorPolicy()
    for _ in range(20):
        policy.decide(SourceLost("gone"))
    progress = Progress(status, policy, Phases())
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            progress.before(piece(), BEFORE)
            progress.committed(piece(), AFTER)
    assert (status.cursor, status.rows, status.committed_ms) == (AFTER, 4, 1_000)
    assert status.lag_seconds is not None
    assert status.lag_seconds > 0
    assert caplog.text.count("first commit after") == 1
    assert value("aqueduct_rows_published_total", op="c") == 4
    assert value("aqueduct_kafka_commit_seconds_count") == 2
    assert (policy.decide(SourceLost("gone")).pause or 0) <= 1


def test_a_piece_without_a_transaction_leaves_the_lag_as_it_was() -> None:
    status = DestinationStatus("progress", lag_seconds=3.0, committed_ms=7)
    Progress(status, ErrorPolicy(), Phases()).committed(moving(), AFTER)
    assert (status.lag_seconds, status.committed_ms) == (3.0, 7)
