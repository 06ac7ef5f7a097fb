"""Statements that were passed by: counted, shown by table, logged once for each."""

from __future__ import annotations

from collections import Counter

import pytest

from app import metrics
from app.worker.destination.commit.skipped_statements import SkippedStatements
from app.worker.pipeline.piece import Counts
from app.worker.status import DestinationStatus
from tests.unit.app.worker.destination.commit.made import AFTER, piece


def test_each_table_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    status = DestinationStatus("passes")
    for _ in range(2):
        SkippedStatements(status).committed(
            piece(counts=Counts(statements=Counter({("mysql", "rds_heartbeat2"): 3}))), AFTER
        )
    SkippedStatements(status).committed(piece(counts=Counts(statements=Counter())), AFTER)
    assert status.to_json()["statements_passed"] == {"mysql.rds_heartbeat2": 6}
    assert len(caplog.records) == 1
    assert "mysql.rds_heartbeat2" in caplog.text
    shown = metrics.REGISTRY.get_sample_value(
        "aqueduct_statements_passed_total", {"destination": "passes"}
    )
    assert shown == 6


def test_the_tables_that_are_listed_have_a_limit() -> None:
    status = DestinationStatus("many")
    SkippedStatements(status).committed(
        piece(counts=Counts(statements=Counter({("d", f"t{n}"): 1 for n in range(150)}))), AFTER
    )
    SkippedStatements(status).committed(
        piece(counts=Counts(statements=Counter({("d", "t1"): 1}))), AFTER
    )
    assert len(status.statements_passed) == 100
    assert status.statements_passed["d", "t1"] == 2
