"""The request for a table's definition, and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.operator.quarantine import DefinitionSource, resolve
from connectors.errors import NotApplied
from tables.state.quarantine import Entry, Outcome, Quarantine
from tests.unit.tables.made import ORDERS, between


class Journal:
    """A destination's journal, in which a table is quarantined until the worker has answered."""

    plan = SimpleNamespace(name="shop")
    unit = SimpleNamespace(name="shop", workers=None)

    def __init__(self, outcome: Outcome, *, tried: bool) -> None:
        quarantine = Quarantine()
        quarantine.destination = "shop"
        before = quarantine.add(ORDERS, "a column of a rule is gone", between(120))
        self._quarantine = quarantine
        self._before = replace(before, is_by_rule=True)
        quarantine.entries[ORDERS] = self._before
        self._outcome, self._tried, self._id = outcome, tried, ""

    async def state(self) -> Any:
        return SimpleNamespace(quarantine=self._quarantine, leader=None)

    latest_state = state

    async def write_all(self, notes: Sequence[tuple[bytes, bytes]]) -> int:
        self._id = notes[0][1].decode().partition('"id":"')[2][:12]
        return 1

    async def wait(
        self, answer: Callable[[Any], Entry | None], *, after: int, seconds: float
    ) -> Any:
        assert (after, seconds > 0) == (1, True)
        by = self._id if self._tried else "by the mapping"
        entry = replace(self._before, outcome=self._outcome, resolution=by)
        self._quarantine.entries[ORDERS] = entry
        return answer(await self.state())


@pytest.mark.parametrize("tried", [True, False])
async def test_a_table_that_was_released_meanwhile_is_an_answer(*, tried: bool) -> None:
    journal: Any = Journal(Outcome.RELEASED, tried=tried)
    _, answer = await resolve(
        journal, ORDERS, DefinitionSource.QUARANTINE, lambda *_: None, by="me", wait=60.0
    )
    assert answer is not None
    assert not answer.value.is_quarantined


@pytest.mark.parametrize(
    ("outcome", "is_answer"),
    [(Outcome.REFUSED, True), (Outcome.RELEASING, False), (Outcome.GIVEN_UP, True)],
)
async def test_another_outcome_is_one_of_this_request_only(
    outcome: Outcome, *, is_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_applied(*_: Any, **__: Any) -> NotApplied:
        return NotApplied("in time")

    monkeypatch.setattr("app.operator.worker_answer.not_applied", not_applied)
    for tried in (False, True):
        journal: Any = Journal(outcome, tried=tried)
        asked = resolve(
            journal, ORDERS, DefinitionSource.QUARANTINE, lambda *_: None, by="me", wait=60.0
        )
        if tried and is_answer:
            _, answer = await asked
            assert answer is not None
            assert answer.value.outcome is outcome
        else:
            with pytest.raises(NotApplied):
                await asked
