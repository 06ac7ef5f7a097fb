"""The checkpoint in a Faust table gives the same state at whatever point its changelog is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.history.codec import checkpoint_records, tombstones
from tables.journal_format import Entry
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import resume_from
from tables.state.quarantine import Quarantine, note_of
from tests.unit.tables.made import ORDERS, between
from tests.unit.tables.state.journal.faust_table import LOOPS, Table, checkpoint_of, kept
from tests.unit.tables.state.journal.test_rows import Written


@pytest.fixture(autouse=True, scope="module")
def loops_are_closed() -> Any:
    yield
    for loop in LOOPS:
        loop.close()
    LOOPS.clear()


def quarantined() -> list[Entry]:
    """A table that is quarantined."""
    quarantine = Quarantine()
    quarantine.destination = "shop"
    return [note_of(quarantine.add(ORDERS, "a test", between(120)))]


ACTS: tuple[Callable[[Written, int], Any], ...] = (
    lambda written, _: written.commit([]),
    lambda written, _: written.commit([]),
    lambda written, number: written.alter(200 + 100 * number),
    lambda written, number: written.checkpoint(201 + 100 * number),
    lambda written, _: written.commit(quarantined()),
    lambda written, _: written.commit(tombstones(heads=written.history.checkpoints[:-1])),
    lambda written, number: written.commit(
        checkpoint_records(written.history.checkpoint(between(150 + 100 * number), made_ms=0))
    ),
)


@settings(deadline=None, max_examples=150)
@given(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=20), data=st.data())
def test_rows_that_are_read_before_they_have_recovered_give_the_same_state(
    acts: list[Callable[[Written, int], Any]], data: st.DataObject
) -> None:
    written = Written()
    for number, act in enumerate(acts):
        act(written, number)
    table = Table()
    kept(table, written.journal.records)
    end = len(table.changelog)
    compacted = data.draw(st.integers(0, end))
    rows = checkpoint_of(table.recovered(compacted, data.draw(st.integers(0, end))))
    state, start = resume_from("shop", rows)
    for record in written.journal.records:
        if record.offset >= start:
            state.apply(record)
    if not state.is_whole():
        # What `folded` does then.
        state = journal.fold("shop", written.journal.records)
    expected = journal.fold("shop", written.journal.records)
    assert state.cursor == expected.cursor
    assert state.quarantine.quarantined.keys() == expected.quarantine.quarantined.keys()
    history, wanted = state.history(), expected.history()
    assert history is not None
    assert wanted is not None
    assert history.now().tables() == wanted.now().tables()
