"""What a run makes of the snapshots in the journal: tables that left the mapping."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tables.state.journal.state import DestinationState
from tables.state.snapshots.table_snapshot import SnapshotState, TableSnapshot, unreadable
from tests.unit.app.worker.destination.snapshot.test_definitions import begun_run
from tests.unit.tables.made import ORDERS

FAILED = unreadable("shop", ORDERS, "it has no key", request="r")


def journal(*snapshots: TableSnapshot) -> DestinationState:
    state = DestinationState("shop")
    state.snapshots.add(snapshots)
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
