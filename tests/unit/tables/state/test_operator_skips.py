"""Transactions to leave out, and who has changed a cursor, as the journal keeps them."""

from __future__ import annotations

from dataclasses import replace

from connectors.kafka.reading import StoredRecord
from tables.journal_format import Entry
from tables.state.journal.state import DestinationState, fold
from tables.state.operator_requests import (
    INTERVENTION_PART,
    SKIP_PART,
    Intervention,
    Skip,
    intervention_note,
    skip_note,
)

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"
SKIP = Skip(destination="shop", transaction=GTID, id="a1", by="anna", why="bad", ts_ms=1)


def state_of(*notes: Entry) -> DestinationState:
    return fold("shop", (StoredRecord(*note, offset) for offset, note in enumerate(notes)))


def test_a_skip_is_pending_until_the_cursor_is_past_it() -> None:
    assert state_of(skip_note(SKIP)).parts[SKIP_PART].pending == {GTID: SKIP}
    done = replace(SKIP, done="b.000001:4", events=5)
    state = state_of(skip_note(SKIP), skip_note(done))
    assert state.parts[SKIP_PART].pending == {}
    assert state.parts[SKIP_PART].all == {GTID: done}


def test_a_replay_does_not_turn_a_skip_back() -> None:
    done = replace(SKIP, done="b.000001:4", events=5)
    state = state_of(skip_note(SKIP), skip_note(done))
    state.apply(StoredRecord(*skip_note(SKIP), 0))
    assert state.parts[SKIP_PART].pending == {}


def test_a_skip_by_its_place_has_a_key_of_its_own() -> None:
    position = replace(SKIP, transaction="uuid:mysql-bin.000001:4")
    assert len({skip_note(one)[0] for one in (SKIP, position)}) == 2
    assert set(state_of(skip_note(SKIP), skip_note(position)).parts[SKIP_PART].pending) == {
        GTID,
        "uuid:mysql-bin.000001:4",
    }


def test_skips_of_another_destination_are_none_of_ours() -> None:
    assert state_of(skip_note(replace(SKIP, destination="other"))).parts[SKIP_PART].all == {}


def test_interventions_are_reported_in_the_order_of_their_epochs() -> None:
    first = Intervention(
        destination="shop",
        id="x",
        what="set",
        by="anna",
        why="reload",
        ts_ms=9,
        epoch=2,
        before=None,
        after="b.000001:4",
        effect="first",
    )
    second = replace(first, id="a", epoch=4, ts_ms=8)
    notes = intervention_note(second), intervention_note(first)
    assert state_of(*notes).parts[INTERVENTION_PART].in_order() == [first, second]
