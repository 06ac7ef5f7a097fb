"""The output for a request's outcome, and the time that a command waits for it."""

from __future__ import annotations

import argparse

import pytest

from app.operator.commands import waiting
from app.operator.commands.waiting import outcome_text, outcome_value
from app.operator.operations.request_outcome import Outcome
from tables.state.operator_requests import Applied


def outcome(state: str, error: str | None = None) -> Outcome:
    applied = Applied(
        destination="shop", worker="a", address="a:1", request=7, state=state, error=error,
        epoch=3, ts_ms=2,
    )  # fmt: skip
    return Outcome(applied=applied, seconds=1.23456)


def test_an_outcome_names_the_worker_and_the_time() -> None:
    found = outcome("PAUSED")
    assert outcome_text(found) == "PAUSED, applied by worker a (a:1) after 1.2 s"
    assert outcome_value(found) == {
        "worker": "a",
        "address": "a:1",
        "state": "PAUSED",
        "error": None,
        "epoch": 3,
        "seconds": 1.235,
    }


def test_a_failure_names_its_error() -> None:
    found = outcome("FAILED", "PositionGone: so")
    assert outcome_text(found).endswith(": PositionGone: so")
    assert outcome_value(found)["error"] == "PositionGone: so"


@pytest.mark.parametrize("text", ["0", "-1", "inf"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="--no-wait"):
        waiting._seconds(text)
