"""What a run makes of the snapshots in the journal: tables that left the mapping, and whether it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connectors.kafka.reading import StoredRecord
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import CONTROL, Control, DesiredState, control_in, control_note
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, unreadable
from tests.unit.app.worker.destination.snapshot.test_definitions import begun_run
from tests.unit.tables.made import ORDERS

FAILED = unreadable("shop", ORDERS, "it has no key", request="r")
DONE = replace(FAILED, state=SnapshotState.DONE, error=None, ts_ms=10)


def journal(*snapshots: TableSnapshot, control: Control | None = None) -> DestinationState:
    state = DestinationState("shop")
    state.snapshots.add(snapshots)
    if control is not None:
        state.apply(StoredRecord(*control_note(control), 7))
    return state


@pytest.mark.parametrize("kind", [SnapshotState.FAILED, SnapshotState.PAUSED])
def test_a_table_that_left_the_mapping_is_gone_for_as_long_as_it_is_not_captured(
    kind: SnapshotState, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    kept = replace(FAILED, state=kind)
    other = replace(FAILED, state=kind, database="other", table="t")
    state = journal(kept, other)
    snapshot = begun_run(state)
    assert snapshot.all[kept.name] == kept
    shown = snapshot.all[other.name]
    assert (shown.state, shown.error) == (SnapshotState.GONE, None)
    # Once it is captured again, its topic still has other rows.
    assert state.snapshots.all[other.name] == other
    assert sum("other.t" in one.getMessage() for one in caplog.records) == 1


def test_one_that_left_the_mapping_does_not_prevent_the_end() -> None:
    other = replace(FAILED, database="other", table="t")
    assert begun_run(journal(DONE, other), is_only=True).ends_with is not None


def ended(by: str = "anna", ts_ms: int = 99, **more: Any) -> Control:
    return Control(destination="shop", desired=DesiredState.RUN, by=by, ts_ms=ts_ms, **more)


def test_the_end_is_a_stop_that_states_that_it_has_ended_once() -> None:
    note = begun_run(journal(DONE), is_only=True).ends_with
    assert note is not None
    assert begun_run(journal(DONE)).ends_with is None, "with another mode"
    control = control_in(StoredRecord(*note, 3))
    assert (control.desired, control.by) == (DesiredState.STOP, "snapshot.mode initial_only")
    assert control.has_ended
    # An earlier version reads it too, and a request that says nothing of it is as before.
    assert b"has_ended" not in (control_note(ended())[1] or b"")
    assert CONTROL.name in control_note(control)[0].decode()


@pytest.mark.parametrize("state", list(SnapshotState))
def test_after_it_has_ended_once_no_later_reading_ends_it(state: SnapshotState) -> None:
    later = replace(DONE, state=state, ts_ms=500)
    assert begun_run(journal(later, control=ended(has_ended=True)), is_only=True).ends_with is None


@pytest.mark.parametrize("state", [SnapshotState.PAUSED, SnapshotState.FAILED])
def test_a_request_meanwhile_does_not_let_it_continue_for_good(state: SnapshotState) -> None:
    open_ = replace(DONE, state=state)
    assert begun_run(journal(open_, control=ended()), is_only=True).ends_with is not None


def test_of_a_journal_that_does_not_say_whether_it_ended_a_later_request_does() -> None:
    assert begun_run(journal(DONE, control=ended()), is_only=True).ends_with is None
    assert begun_run(journal(DONE, control=ended(ts_ms=1)), is_only=True).ends_with is not None
