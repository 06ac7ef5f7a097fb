"""Requests: the outcome from the journal records after one, its text, and how long it is waited for."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator import destination, journal_access, worker_answer
from app.operator.destination import Outcome, outcome_text, outcome_value, send_request
from app.operator.journal_access import Journal, UnitJournal, wait_for_record
from app.worker.destination.plan import Plan
from connectors.errors import NotApplied, RequestReplaced
from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import (
    Applied,
    Control,
    Current,
    DesiredState,
    control_note,
    source_note,
)
from tables.state.operator_requests import outcome_note as applied_note

OFFSET = 7
CONTROL = Control(destination="shop", desired=DesiredState.PAUSE, by="me", ts_ms=1)


def applied(state: str, request_at: int = OFFSET, error: str | None = None) -> Entry:
    return applied_note(
        Applied(
            destination="shop", worker="a", address="a:1", request=request_at, state=state,
            error=error, epoch=3, ts_ms=2,
        )
    )  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., UnitJournal]:
    """A journal in which these records follow the request, and then nothing."""

    def made(*notes: Entry) -> UnitJournal:
        class Tail:
            def __init__(self, *, take: Any, start: Any, **_: Any) -> None:
                self._take = take
                assert start == {2: OFFSET + 1}

            async def run(self) -> None:
                for number, note in enumerate(notes, OFFSET + 1):
                    self._take(2, StoredRecord(*note, number))
                await asyncio.Event().wait()

        monkeypatch.setattr(journal_access, "Tail", Tail)

        async def workers(*_: object) -> str:
            return "no worker runs"

        async def write(_: object) -> int:
            return OFFSET

        monkeypatch.setattr(destination, "why_not_applied", workers)
        partition = SimpleNamespace(options={}, topic="t", number=2)
        journal = SimpleNamespace(settings=None, name="shop", partition=partition, write=write)
        return cast(UnitJournal, journal)

    return made


async def test_what_a_worker_has_reached_is_the_outcome(asked: Callable[..., UnitJournal]) -> None:
    found = await send_request(asked(applied("PAUSED")), CONTROL, wait=30)
    assert found is not None
    assert found.is_reached
    assert found.applied.state == "PAUSED"


async def test_of_another_request_and_another_destination_nothing_is_taken(
    asked: Callable[..., UnitJournal],
) -> None:
    other = applied_note(
        Applied(
            destination="shop2", worker="a", address="", request=OFFSET, state="PAUSED",
            error=None, epoch=3, ts_ms=2,
        )
    )  # fmt: skip
    with pytest.raises(NotApplied, match="no worker runs"):
        await send_request(asked(applied("PAUSED", 6), other), CONTROL, wait=0.2)


async def test_a_failure_is_an_outcome_and_a_retry_is_one_only_in_the_end(
    asked: Callable[..., UnitJournal],
) -> None:
    notes = applied("RETRYING", error="KafkaLost: so"), applied("FAILED", error="PositionGone: so")
    found = await send_request(asked(*notes), CONTROL, wait=30)
    assert found is not None
    assert not found.is_reached
    assert found.applied.error == "PositionGone: so"
    found = await send_request(asked(notes[0]), CONTROL, wait=0.2)
    assert found is not None
    assert not found.is_reached
    assert found.applied.error == "KafkaLost: so"


async def test_another_request_replaces_it_by_name(asked: Callable[..., UnitJournal]) -> None:
    other = Control(destination="shop", desired=DesiredState.RUN, by="you", ts_ms=2)
    with pytest.raises(RequestReplaced, match="run, requested by you"):
        await send_request(asked(control_note(other)), CONTROL, wait=30)


async def test_without_waiting_nothing_is_said_of_workers(
    asked: Callable[..., UnitJournal],
) -> None:
    assert await send_request(asked(), CONTROL, wait=None) is None


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
        worker_answer._seconds(text)


async def test_an_answer_is_read_of_the_state_that_the_records_after_a_request_make(
    asked: Callable[..., UnitJournal],
) -> None:
    current = Current(
        destination="shop", address="b:1", server_uuid="u", why="asked for", ts_ms=9, answers="id"
    )

    def read(state: DestinationState) -> str | None:
        assert state.cursor is None
        found = state.source_choice.current
        return None if found is None else found.answers

    plan = cast(
        Plan,
        SimpleNamespace(
            name="shop", journal=asked(applied("RUNNING"), source_note(current)).partition
        ),
    )
    journal = Journal(settings=cast(Any, None), plan=plan, options={})
    assert await journal.wait(read, after=OFFSET, seconds=30) == "id"
    asked(applied("RUNNING"))
    assert await journal.wait(read, after=OFFSET, seconds=0.2) is None


async def test_an_error_of_what_reads_an_answer_ends_the_wait(
    asked: Callable[..., UnitJournal],
) -> None:
    def take(_: StoredRecord) -> None:
        raise ValueError("odd")

    partition = asked(applied("RUNNING")).partition
    with pytest.raises(ValueError, match="odd"):
        await wait_for_record(partition, OFFSET, take, 30)
