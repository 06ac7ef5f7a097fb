"""The committed state, read while a run continues to write the journal."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.worker.destination.takeover import committed_state
from app.worker.destination.takeover.committed_state import committed_history, whole_state
from connectors.errors import JournalDamaged
from tables.state.journal.state import DestinationState
from tests.unit.tables.state.test_history_retention import Kept


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_state, "_PAUSE_SECONDS", 0)


class ExpiringJournal:
    """A journal whose run expires checkpoints between two passes over it."""

    destination = "shop"
    topic = "aqueduct.journal"

    def __init__(self, kept: Kept, *ages: int) -> None:
        self.kept = kept
        self.ages = list(ages)
        self.passes = 0

    async def fold_into(self, state: DestinationState, start: int) -> None:
        self.passes += 1
        for record in self.kept.written.records[start:]:
            state.apply(record)
        if self.ages:
            self.kept.commit(self.kept.expired(self.ages.pop(0)).entries)


def test_a_history_that_expires_between_two_passes_is_read_again() -> None:
    # The first pass keeps the content of checkpoint 1; 2 and 3 are gone before the next two begin.
    kept = Kept()
    kept.commit(kept.expired(600).entries)
    journal = ExpiringJournal(kept, 300)
    history = asyncio.run(committed_history(cast(Any, journal)))
    assert history.checkpoints[0].number == 3
    assert history.count == 9


def test_a_history_of_which_a_record_is_missing_is_damaged() -> None:
    kept = Kept(count=8)
    missing = kept.written.records.pop(-2)
    assert missing.key.startswith(b"history/")
    journal = ExpiringJournal(kept)
    with pytest.raises(JournalDamaged, match="8 records"):
        asyncio.run(whole_state(cast(Any, journal)))
    assert journal.passes > 1
