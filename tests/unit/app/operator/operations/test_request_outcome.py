"""The outcome of a request, from the journal records after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator.operations import request_outcome
from app.operator.operations.journal_access import Journal
from app.operator.operations.request_outcome import send_request
from connectors.errors import NotApplied, RequestReplaced
from connectors.kafka.reading.partition_reader import StoredRecord
from tables.journal_format import Entry
from tables.state.operator_requests import Applied, Control, DesiredState, control_note
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
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Journal]:
    """A journal in which these records follow the request, and then nothing."""

    def made(*notes: Entry) -> Journal:
        class Tail:
            def __init__(self, *, take: Any, start: Any, **_: Any) -> None:
                self._take = take
                assert start == {2: OFFSET + 1}

            async def run(self) -> None:
                for number, note in enumerate(notes, OFFSET + 1):
                    self._take(2, StoredRecord(*note, number))
                await asyncio.Event().wait()

        monkeypatch.setattr(request_outcome, "Tail", Tail)

        async def workers(*_: object) -> str:
            return "no worker runs"

        async def write(_: object) -> int:
            return OFFSET

        monkeypatch.setattr(request_outcome, "why_not_applied", workers)
        plan = SimpleNamespace(name="shop")
        journal = SimpleNamespace(
            settings=None, plan=plan, options={}, topic="t", partition=2, write=write
        )
        return cast(Journal, journal)

    return made


async def test_what_a_worker_has_reached_is_the_outcome(asked: Callable[..., Journal]) -> None:
    found = await send_request(asked(applied("PAUSED")), CONTROL, wait=30)
    assert found is not None
    assert found.is_reached
    assert found.applied.state == "PAUSED"


async def test_of_another_request_and_another_destination_nothing_is_taken(
    asked: Callable[..., Journal],
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
    asked: Callable[..., Journal],
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


async def test_another_request_replaces_it_by_name(asked: Callable[..., Journal]) -> None:
    other = Control(destination="shop", desired=DesiredState.RUN, by="you", ts_ms=2)
    with pytest.raises(RequestReplaced, match="run, requested by you"):
        await send_request(asked(control_note(other)), CONTROL, wait=30)


async def test_without_waiting_nothing_is_said_of_workers(asked: Callable[..., Journal]) -> None:
    assert await send_request(asked(), CONTROL, wait=None) is None
