"""Decisions on shards in the journal: what is pending, what is in force, and the form of records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.errors import JournalUnreadable
from connectors.kafka.reading import StoredRecord
from tables.history.logical_schemas.decisions import (
    DECISIONS_PART,
    UNIT,
    Decided,
    Decision,
    Decisions,
    Verb,
    decided_in,
    decision_in,
    note_of_decided,
    note_of_decision,
)
from tables.journal_format import Entry, encoded
from tables.state.journal.state import DestinationState, fold

TABLE = ("trade", "orders")
EXCLUDE = Decision(
    table=TABLE, id="d1", verb=Verb.EXCLUDE, name="a:shop.orders_1", by="ann", why="old", ts_ms=5
)


def decided(decision: Decision, *, refused: str = "", before: Decision | None = None) -> Decided:
    return Decided(
        table=decision.table, subject=decision.subject, id=decision.id, refused=refused,
        state="equal", in_force=before if refused else decision, among=("int",), worker="w", ts_ms=6,
    )  # fmt: skip


def folded(*notes: Entry) -> Decisions:
    records = [StoredRecord(key, value, at) for at, (key, value) in enumerate(notes)]
    state: DestinationState = fold(UNIT, records)
    state.check_readable()
    return state.parts[DECISIONS_PART]


def test_records_are_read_as_they_were_written() -> None:
    key, value = note_of_decision(EXCLUDE)
    assert key == b"shards/logical.schemas/trade/orders/shard/a%3Ashop.orders_1"
    assert decision_in(StoredRecord(key, value, 7)) == EXCLUDE
    assert decision_in(StoredRecord(key, value, 7)).offset == 7
    key, value = note_of_decided(decided(EXCLUDE))
    assert key == b"shards_decided/logical.schemas/trade/orders/shard/a%3Ashop.orders_1"
    assert decided_in(StoredRecord(key, value, 8)) == decided(EXCLUDE)
    key, value = note_of_decided(decided(replace(EXCLUDE, offset=7)))
    applied = decided_in(StoredRecord(key, value, 8)).in_force
    assert applied is not None
    assert applied.offset == 7


def test_a_decision_is_in_force_once_a_worker_applied_it() -> None:
    found = folded(note_of_decision(EXCLUDE))
    assert (found.pending(), found.in_force(TABLE).all) == ([EXCLUDE], [])
    found = folded(note_of_decision(EXCLUDE), note_of_decided(decided(EXCLUDE)))
    assert (found.pending(), found.in_force(TABLE).all) == ([], [EXCLUDE])
    assert found.in_force(("trade", "items")).all == []


def test_a_refused_decision_is_not_in_force() -> None:
    found = folded(note_of_decision(EXCLUDE), note_of_decided(decided(EXCLUDE, refused="no")))
    assert (found.pending(), found.in_force(TABLE).all) == ([], [])


def test_a_later_decision_on_a_subject_replaces_the_earlier_one_once_it_is_decided() -> None:
    include = replace(EXCLUDE, id="d2", verb=Verb.INCLUDE)
    notes = [
        note_of_decision(EXCLUDE),
        note_of_decided(decided(EXCLUDE)),
        note_of_decision(include),
    ]
    assert folded(*notes).pending() == [include]
    found = folded(*notes, note_of_decided(decided(include)))
    assert (found.pending(), found.in_force(TABLE).excluded) == ([], {})


def test_a_refused_decision_leaves_the_one_in_force_also_once_the_journal_is_compacted() -> None:
    take = replace(EXCLUDE, id="t1", verb=Verb.TAKE_TYPE, name="x", value="bigint", offset=0)
    other = replace(take, id="t2", value="json")
    notes = [
        note_of_decision(take),
        note_of_decided(decided(take)),
        note_of_decision(other),
        note_of_decided(decided(other, refused="no", before=take)),
    ]
    # While the later one is pending, too; the journal may have lost the earlier one by then.
    for some in (notes[:3], notes[1:3], notes, notes[2:], notes[3:]):
        found = folded(*some)
        assert found.pending() == ([other] if some[-1] == notes[2] else [])
        assert found.in_force(TABLE).taken == {"x": (take, ("int",))}
        assert found.before(replace(other, id="t3")) == (take, ("int",))


@pytest.mark.parametrize("note", [note_of_decision(EXCLUDE), note_of_decided(decided(EXCLUDE))])
def test_a_record_of_another_form_is_named(note: Entry) -> None:
    with pytest.raises(JournalUnreadable):
        folded((note[0], encoded({"table": ["trade", "orders"]})))
