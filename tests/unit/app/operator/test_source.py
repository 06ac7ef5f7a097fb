"""A switch to another source: the request, and its outcome."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.operator import worker_answer
from app.operator.source import request_switch
from connectors.errors import NotApplied, UsageError
from tables.journal_format import Entry as Note
from tables.state.operator_requests import Current, SourceRequest, source_note
from tests.unit.app.operator.journals import MemoryJournal, journal


def tried_by_a_worker(made: MemoryJournal, **more: Any) -> None:
    def answer(note: Note) -> list[Note]:
        current = Current(
            destination="shop", address="b:3306", server_uuid="uuid-b", why="asked for", ts_ms=9,
            answers=orjson.loads(note[1])["id"], **more,
        )  # fmt: skip
        return [source_note(current)]

    made.answer = answer


async def test_the_source_that_is_read_then_is_the_outcome() -> None:
    made = journal()
    tried_by_a_worker(made)
    request, tried = await request_switch(made.journal, "b:3306", by="anna", wait=5)
    assert tried is not None
    assert (tried.value.server_uuid, tried.value.refused) == ("uuid-b", None)
    assert (request.address, request.by) == ("b:3306", "anna")


async def test_a_refusal_is_an_outcome_too() -> None:
    made = journal()
    tried_by_a_worker(made, refused="it lags")
    _, tried = await request_switch(made.journal, "b:3306", by="anna", wait=5)
    assert tried is not None
    assert tried.value.refused == "it lags"


async def test_a_source_that_the_settings_do_not_have_is_refused_and_nothing_is_written() -> None:
    made = journal()
    with pytest.raises(UsageError, match="shop has no source 'c:3306'; there is: a:3306, b:3306"):
        await request_switch(made.journal, "c:3306", by="anna", wait=5)
    assert made.written == []


async def test_a_request_is_later_than_the_last_one_whatever_the_clock_says() -> None:
    made = journal()
    far = 99_999_999_999_999
    made.folded.source_choice.request = SourceRequest(
        destination="shop", id="x", address="a:3306", by="me", ts_ms=far
    )
    request, tried = await request_switch(made.journal, "b:3306", by="anna", wait=None)
    assert request.ts_ms == far + 1
    assert tried is None


async def test_one_that_no_worker_tries_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    async def workers(*_: object) -> str:
        return "no worker runs"

    monkeypatch.setattr(worker_answer, "why_not_applied", workers)
    made = journal()
    with pytest.raises(NotApplied, match=r"source switch was recorded, .* no worker runs"):
        await request_switch(made.journal, "b:3306", by="anna", wait=0.1)
    assert len(made.written) == 1
