"""A desired state is written whole, on top of the last request."""

from __future__ import annotations

from typing import cast

from app.operator.destination import request_state
from app.operator.journal_access import UnitJournal
from tables.state.operator_requests import Control, DesiredState, control_note
from tests.unit.app.operator.journals import MemoryJournal, journal


async def requested(made: MemoryJournal, desired: DesiredState | None) -> Control:
    unit = cast(UnitJournal, made.journal)
    control, outcome = await request_state(unit, desired, by="anna", wait=None)
    assert outcome is None
    assert made.folded.control == control
    return control


async def test_a_restart_keeps_the_state_that_is_wanted() -> None:
    made = journal()
    paused = await requested(made, DesiredState.PAUSE)
    assert (paused.desired, paused.restart, paused.by) == (DesiredState.PAUSE, "", "anna")
    restarted = await requested(made, None)
    assert restarted.desired is DesiredState.PAUSE
    assert restarted.restart


async def test_another_state_keeps_the_restart_so_that_no_new_run_begins_for_it() -> None:
    made = journal()
    restarted = await requested(made, None)
    assert restarted.desired is DesiredState.RUN
    stopped = await requested(made, DesiredState.STOP)
    assert (stopped.desired, stopped.restart) == (DesiredState.STOP, restarted.restart)


async def test_a_request_keeps_that_the_existing_rows_have_ended_the_destination_once() -> None:
    made = journal()
    assert not (await requested(made, DesiredState.STOP)).has_ended
    ended = Control(destination="shop", desired=DesiredState.STOP, has_ended=True)
    await made.journal.write(control_note(ended))
    assert (await requested(made, DesiredState.RUN)).has_ended
