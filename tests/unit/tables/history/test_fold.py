"""Records of a history that contradict one another, or come in another order than they were meant to."""

from __future__ import annotations

import pytest

from connectors.kafka.reading import StoredRecord
from tables.history import codec as history_fold
from tables.history.codec import (
    NEWEST,
    OLDEST,
    HistoryFold,
    checkpoint_records,
    history_records,
    tombstones,
)
from tables.history.history import SchemaHistory
from tables.history.record import SchemaCheckpoint, SchemaRecord
from tables.journal_format import Entry
from tests.unit.tables.made import ORDERS, applied, begun, between, names_of


@pytest.fixture(autouse=True)
def few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small number, so that some are read in time and some are not."""
    monkeypatch.setattr(history_fold, "_UNREAD", 2)


class Folded:
    """Records in sequence."""

    def __init__(self, base: int = NEWEST) -> None:
        self.fold = HistoryFold(base)
        self._end = 0

    def take(self, *entries: Entry) -> None:
        for key, value in entries:
            kind, _, *names = key.decode().split("/")
            self.fold.take(kind, names, StoredRecord(key, value, self._end))
            self._end += 1

    def names(self, count: int) -> list[str]:
        return names_of(self.fold.build(count).find(*ORDERS))


def step(history: SchemaHistory, pos: int, column: str) -> tuple[SchemaRecord, list[Entry]]:
    record = applied(history, pos, f"ALTER TABLE orders ADD {column} INT")
    return record, history_records(record)


def baseline() -> tuple[SchemaHistory, list[Entry]]:
    history = begun("orders")
    head = history.checkpoints[0]
    tables, databases = history.now().tables(), history.now().databases()
    return history, checkpoint_records(
        SchemaCheckpoint(head=head, tables=tables, databases=databases)
    )


@pytest.mark.parametrize("base", [NEWEST, OLDEST])
def test_of_two_steps_with_one_number_the_later_one_counts(base: int) -> None:
    one, begins = baseline()
    other, _ = baseline()
    found = Folded(base)
    found.take(*begins, *step(one, 200, "old")[1], *step(one, 300, "older")[1])
    # The destination went back, and the source went another way from there.
    found.take(*step(other, 250, "new")[1])
    assert found.names(1) == ["id", "new"]


def test_a_step_that_has_another_number_now_has_the_old_one_no_more() -> None:
    one, begins = baseline()
    other, _ = baseline()
    found = Folded()
    for pos in (200, 300):
        found.take(*step(one, pos, f"c{pos}")[1])
    found.take(*begins, *step(one, 400, "c400")[1])
    # The same statement is the first one now; a checkpoint holds it, and two more are to come.
    found.take(*step(other, 400, "c400")[1])
    made = other.checkpoint(between(450), made_ms=0)
    found.take(*checkpoint_records(made), *step(other, 500, "c500")[1])
    assert found.fold.is_whole(2)
    assert not found.fold.is_whole(3)


def test_a_checkpoint_that_is_gone_is_nothing_to_begin_from() -> None:
    history, begins = baseline()
    found = Folded(OLDEST)
    made = history.checkpoint(between(150), made_ms=0)
    entries = checkpoint_records(made)
    found.take(*begins, *entries)
    assert found.fold.is_whole(0)
    found.take(*tombstones(heads=[history.checkpoints[0]]))
    # The content that was kept went with it; another one's is to be read again.
    assert not found.fold.is_whole(0)
    base = found.fold.base(0)
    assert base is not None
    again = Folded(base.number)
    again.take(*begins, *entries)
    assert again.names(0) == ["id"]


def test_a_number_of_a_checkpoint_is_never_used_again() -> None:
    history, begins = baseline()
    found = Folded()
    for _ in range(3):
        history.checkpoint(between(150), made_ms=0)
    found.take(*begins, *tombstones(heads=history.checkpoints[1:]))
    read = found.fold.build(0)
    assert read.checkpoint(between(160), made_ms=0).head.number == 5
