"""Requests on snapshots: which are still to be applied, and what they make of a table's state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.errors import JournalDamaged
from connectors.kafka.reading import StoredRecord
from tables.journal_format import encoded
from tables.state.journal.state import fold
from tables.state.snapshots.request import (
    SNAPSHOT_REQUEST,
    SNAPSHOT_REQUEST_PART,
    SnapshotAction,
    SnapshotRequest,
    after_request,
    latest,
    note_of,
    pending,
    request_in,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from tables.state.snapshots.snapshot_progress import note_of as snapshot_note

START = SnapshotRequest(
    destination="shop",
    database="shop",
    table="orders",
    id="one",
    action=SnapshotAction.START,
    where="id > 5",
    replaces=False,
    by="anna",
    ts_ms=1,
)
READING = TableSnapshot(
    destination="shop",
    database="shop",
    table="orders",
    id="old",
    state=SnapshotState.READING,
    after=("7",),
    chunks=2,
    rows=7,
)


def asked(action: SnapshotAction, name: str = "two") -> SnapshotRequest:
    return replace(START, action=action, id=name, where=None)


def test_a_request_is_read_back_with_its_offset() -> None:
    key, value = note_of(START)
    assert key == b"snapshot-request/shop/shop/orders"
    assert request_in(StoredRecord(key, value, 12)) == replace(START, offset=12)


def test_the_id_that_an_earlier_version_wrote_of_a_signals_row_is_not_read() -> None:
    key, value = note_of(replace(START, by="signal 4111 1111"))
    assert request_in(StoredRecord(key, value, 12)).by == "a signal"


def test_the_keys_to_remove_are_read_back_and_those_without_are_as_before() -> None:
    wanted = replace(START, removes=('{"id":1}', '{"id":"é"}'))
    assert request_in(StoredRecord(*note_of(wanted), 12)) == replace(wanted, offset=12)
    begun = after_request(wanted, READING, now_ms=9)
    assert begun.removes == wanted.removes
    state = fold("shop", [StoredRecord(*snapshot_note(begun), 1)])
    assert state.snapshots.all == {begun.name: begun}
    # An earlier version reads no record with a member that it does not know.
    assert all(b"removes" not in value for _, value in (note_of(START), snapshot_note(READING)))


def test_the_last_request_of_a_table_counts_and_an_old_record_changes_nothing() -> None:
    stop = asked(SnapshotAction.STOP)
    state = fold("shop", [StoredRecord(*note_of(START), 4), StoredRecord(*note_of(stop), 5)])
    state.apply(StoredRecord(*note_of(START), 4))
    assert state.parts[SNAPSHOT_REQUEST_PART].all == {START.name: replace(stop, offset=5)}


def test_a_damaged_request_is_refused_by_name() -> None:
    key = SNAPSHOT_REQUEST.key("shop", "shop", "orders")
    with pytest.raises(JournalDamaged, match="a request for a snapshot cannot be read"):
        request_in(StoredRecord(key, encoded({"action": "fly"}), 1))


def test_the_later_of_two_sources_counts_wherever_it_is() -> None:
    older, newer = replace(START, offset=3), replace(asked(SnapshotAction.STOP), offset=9)
    assert latest([older], [newer]) == [newer]
    assert latest([newer], [older]) == [newer]


def test_a_request_is_pending_until_the_tables_state_has_its_id() -> None:
    assert pending([START], {}) == [START]
    done = after_request(START, None, now_ms=9)
    assert pending([START], {done.name: done}) == []
    stop = asked(SnapshotAction.STOP)
    assert pending([stop], {done.name: done}) == [stop]
    assert pending([asked(SnapshotAction.PAUSE)], {}) == [], "there is nothing to pause"


def test_a_stop_in_place_of_a_start_is_pending_until_a_state_has_its_id_too() -> None:
    stop = asked(SnapshotAction.STOP)
    assert pending([stop], {}) == [stop], "the start may be on its way into the journal"
    stopped = after_request(stop, None, now_ms=9)
    assert (stopped.state, stopped.rows, stopped.request) == (SnapshotState.STOPPED, 0, "two")
    assert stopped.where is None
    assert pending([stop], {stopped.name: stopped}) == []
    state = fold("shop", [StoredRecord(*snapshot_note(stopped), 1)])
    assert state.snapshots.all == {stopped.name: stopped}


def test_a_start_begins_with_the_first_row() -> None:
    found = after_request(START, READING, now_ms=9)
    assert (found.id, found.request, found.state) == ("one", "one", SnapshotState.WAITING)
    assert (found.after, found.rows, found.where, found.began_ms) == (None, 0, "id > 5", 9)


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (SnapshotAction.PAUSE, SnapshotState.READING, SnapshotState.PAUSED),
        (SnapshotAction.PAUSE, SnapshotState.WAITING, SnapshotState.PAUSED),
        (SnapshotAction.PAUSE, SnapshotState.DONE, SnapshotState.DONE),
        (SnapshotAction.RESUME, SnapshotState.PAUSED, SnapshotState.READING),
        (SnapshotAction.RESUME, SnapshotState.STOPPED, SnapshotState.STOPPED),
        (SnapshotAction.STOP, SnapshotState.PAUSED, SnapshotState.STOPPED),
        (SnapshotAction.STOP, SnapshotState.READING, SnapshotState.STOPPED),
        (SnapshotAction.STOP, SnapshotState.GONE, SnapshotState.GONE),
    ],
)
def test_the_other_requests_keep_what_was_read(
    action: SnapshotAction, before: SnapshotState, after: SnapshotState
) -> None:
    found = after_request(asked(action), replace(READING, state=before), now_ms=9)
    assert found == replace(READING, state=after, request="two", ts_ms=9)


def test_a_pause_before_the_first_chunk_is_resumed_from_the_first_row() -> None:
    waiting = replace(READING, state=SnapshotState.WAITING, after=None, chunks=0, rows=0)
    paused = after_request(asked(SnapshotAction.PAUSE), waiting, now_ms=9)
    resumed = after_request(asked(SnapshotAction.RESUME, "three"), paused, now_ms=10)
    assert resumed.state is SnapshotState.WAITING


def test_the_state_of_a_table_is_read_back_and_an_earlier_form_is_too() -> None:
    full = replace(READING, where="a", replaces=True, estimated_rows=90, request="one")
    state = fold("shop", [StoredRecord(*snapshot_note(full), 1)])
    assert state.snapshots.all == {full.name: full}
    earlier = {
        "destination": "shop", "database": "shop", "table": "orders", "id": "old", "state": "done",
        "after": None, "chunks": 1, "rows": 2, "began_ms": 3, "ts_ms": 4, "error": None,
    }  # fmt: skip
    state = fold("shop", [StoredRecord(b"snapshot/shop/shop/orders", encoded(earlier), 1)])
    assert state.snapshots.all[full.name].state is SnapshotState.DONE


def test_a_mark_lets_a_reading_continue_and_fail_at_its_end_and_any_other_fail_at_once() -> None:
    mark = replace(asked(SnapshotAction.MARK), why="DROP PARTITION changed rows")
    key, value = note_of(mark)
    assert request_in(StoredRecord(key, value, 3)) == replace(mark, offset=3)
    assert b'"why"' not in note_of(START)[1]
    for state in (SnapshotState.READING, SnapshotState.PAUSED, SnapshotState.WAITING):
        before = replace(READING, state=state)
        marked = after_request(mark, before, now_ms=5)
        assert replace(marked, unlogged=None, ts_ms=0, request="") == before
        assert (marked.request, marked.unlogged) == ("two", mark.why)
        assert (before.ended, marked.ended) == (SnapshotState.DONE, SnapshotState.FAILED)
        read = fold("shop", [StoredRecord(*snapshot_note(marked), 1)])
        assert read.snapshots.all[marked.name] == marked
    assert b'"unlogged"' not in snapshot_note(READING)[1]
    for state in (SnapshotState.DONE, SnapshotState.STOPPED, SnapshotState.FAILED):
        marked = after_request(mark, replace(READING, state=state), now_ms=5)
        assert (marked.state, marked.error) == (SnapshotState.FAILED, mark.why)
    assert after_request(replace(START, where=None), marked, now_ms=5).unlogged is None


def test_a_start_of_some_rows_keeps_the_failure_of_the_whole_table() -> None:
    failed = replace(READING, state=SnapshotState.FAILED, error="DROP PARTITION changed rows")
    first = after_request(START, failed, now_ms=9)
    assert (first.state, first.unlogged) == (SnapshotState.WAITING, failed.error)
    again = after_request(replace(START, id="three"), replace(first, state=first.ended), now_ms=9)
    assert again.unlogged == failed.error
    assert after_request(replace(START, where=None), again, now_ms=9).unlogged is None


def test_a_start_of_some_rows_after_one_that_failed_is_as_the_first() -> None:
    failed = replace(READING, where="id = 1", state=SnapshotState.FAILED, error="command denied")
    assert after_request(START, failed, now_ms=9).unlogged is None
    mark = replace(asked(SnapshotAction.MARK), why="DROP PARTITION changed rows")
    marked = after_request(mark, failed, now_ms=9)
    assert after_request(START, marked, now_ms=9).unlogged == mark.why
    for state in (SnapshotState.DONE, SnapshotState.STOPPED):
        assert after_request(START, replace(READING, state=state), now_ms=9).unlogged is None
    gone = replace(marked, state=SnapshotState.GONE)
    assert after_request(START, gone, now_ms=9).unlogged is None, "another table has the name"
