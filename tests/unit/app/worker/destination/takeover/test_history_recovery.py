"""When a run's schema history begins again, and what the journal then has of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.worker.destination.takeover.history_recovery import HistoryReading
from app.worker.destination.takeover.initial_state import InitialState
from connectors.errors import (
    AqueductError,
    HistoryTooShort,
    JournalDamaged,
    JournalTooNew,
    JournalUnreadable,
    PositionPurged,
    PositionUnknown,
    StateUnknown,
)
from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.start import AtCoordinates, Earliest, Latest
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.history import SchemaHistory
from tables.journal_format import is_tombstone
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState, fold
from tables.state.operator_requests import RECOVERY_PART, HistoryRecovery, recovery_note
from tests.unit.tables.made import begun

CURSOR = Cursor(
    destination="shop",
    installation="i",
    epoch=4,
    seq=9,
    versions=0,
    offset=SourceOffset(server_uuid="s", coordinates=Coordinates("b.000001", 4), gtid_set=None),
)
UNREADABLE = JournalUnreadable("x", key="history/shop/s/b/4")
AGAIN = "without history"
Open = Callable[[DestinationState], InitialState]


class Journal:
    """A journal, whose reading fails as is wanted, and what was asked of it."""

    def __init__(self, *, has_cursor: bool = True) -> None:
        self.state = DestinationState("shop")
        if has_cursor:
            self.state.cursor = CURSOR
        self.errors: dict[str, AqueductError] = {}
        self.asked: list[str] = []

    async def read(
        self, *, whole_history: bool = False, without_history: bool = False
    ) -> DestinationState:
        how = AGAIN if without_history else "whole" if whole_history else "newest"
        self.asked.append(how)
        if how in self.errors:
            raise self.errors[how]
        return self.state

    def reading(self, *, recovers: bool = True) -> HistoryReading:
        return HistoryReading(destination="shop", recovers=recovers, read=self.read)

    def ran(self, reading: HistoryReading, opened: InitialState) -> list[HistoryRecovery]:
        """Commit the notes of a run; return the recoveries among them."""
        notes = reading.notes(self.state, opened)
        records = [StoredRecord(*note, at) for at, note in enumerate(notes)]
        found = [fold("shop", [record]).parts[RECOVERY_PART].last for record in records]
        state = fold("shop", [StoredRecord(*recovery_note(one), 1) for one in found if one])
        if state.parts[RECOVERY_PART].last is not None:
            state.cursor = CURSOR
            self.state = state
        return [one for one in found if one is not None]


def opened(history: SchemaHistory | None = None) -> InitialState:
    return InitialState(cursor=CURSOR, history=history)


async def run(journal: Journal, *, recovers: bool = True) -> list[HistoryRecovery]:
    reading = journal.reading(recovers=recovers)
    state = await reading.state()
    _, found = await reading.opened(state, lambda _: opened(begun("orders")))
    return journal.ran(reading, found)


async def test_it_begins_again_once_until_the_mode_was_another() -> None:
    journal = Journal()
    (recovery,) = await run(journal)
    assert journal.asked == ["newest", AGAIN]
    assert (recovery.why, recovery.at) == ("snapshot.mode is recovery", str(CURSOR.offset))
    for _ in range(2):
        journal.asked.clear()
        assert await run(journal) == []
        assert journal.asked == ["newest"]
    (ended,) = await run(journal, recovers=False)
    assert ended == replace(recovery, is_requested=False)
    assert await run(journal, recovers=False) == []
    journal.asked.clear()
    assert len(await run(journal)) == 1
    assert journal.asked == ["newest", AGAIN]


@pytest.mark.parametrize("error", [UNREADABLE, JournalDamaged("its cursor counts 3 records")])
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_history_that_cannot_be_read_begins_again_each_time(
    error: JournalDamaged, is_done: bool
) -> None:
    journal = Journal()
    if is_done:
        await run(journal)
    journal.errors["newest"] = error
    (recovery,) = await run(journal)
    assert error.name in recovery.why
    assert error.detail in recovery.why


@pytest.mark.parametrize("error", [UNREADABLE, JournalTooNew("format 9")])
async def test_damage_that_is_not_of_the_history_stays_an_error(error: AqueductError) -> None:
    journal = Journal()
    journal.errors = {"newest": error, AGAIN: error}
    with pytest.raises(type(error)):
        await journal.reading().state()
    # Neither is any without the mode.
    journal.errors = {"newest": error}
    with pytest.raises(type(error)):
        await journal.reading(recovers=False).state()
    assert journal.asked.count(AGAIN) == (0 if isinstance(error, JournalTooNew) else 1)


def fails(*errors: AqueductError) -> Open:
    """An opening that fails so often, and then does not."""
    left = list(errors)

    def open_(_: DestinationState) -> InitialState:
        if left:
            raise left.pop(0)
        return opened(begun("orders"))

    return open_


async def recovered(journal: Journal, open_: Open, *, recovers: bool = True) -> HistoryReading:
    """Open after a run that has carried the request out."""
    if recovers:
        await run(journal)
    journal.asked.clear()
    reading = journal.reading(recovers=recovers)
    state = await reading.state()
    await reading.opened(state, open_)
    return reading


async def test_a_history_that_begins_after_the_cursor_is_read_whole_before_it_begins_again() -> (
    None
):
    short = HistoryTooShort("it begins at b.000002:4")
    journal = Journal()
    assert (await recovered(journal, fails(short), recovers=False)).why is None
    assert journal.asked == ["newest", "whole"]
    with pytest.raises(HistoryTooShort):
        await recovered(Journal(), fails(short, short), recovers=False)
    assert (await recovered(journal, fails(short))).why is None
    reading = await recovered(journal, fails(short, short))
    assert journal.asked == ["newest", "whole", AGAIN]
    assert reading.why == "HistoryTooShort: it begins at b.000002:4"


@pytest.mark.parametrize("error", [PositionUnknown("of another server"), UNREADABLE])
async def test_a_history_that_cannot_be_used_at_the_cursor_begins_again(
    error: AqueductError,
) -> None:
    journal = Journal()
    key = ", key history/shop/s/b/4" if error is UNREADABLE else ""
    assert (await recovered(journal, fails(error))).why == f"{error.name}: {error.detail}{key}"
    with pytest.raises(type(error)):
        await recovered(journal, fails(error), recovers=False)


async def test_other_errors_of_a_start_are_no_reason_to_begin_again() -> None:
    journal = Journal()
    with pytest.raises(PositionPurged):
        await recovered(journal, fails(PositionPurged("gone")))
    assert AGAIN not in journal.asked


async def test_without_a_cursor_only_a_start_that_names_a_position_is_one() -> None:
    journal = Journal(has_cursor=False)
    reading = journal.reading()
    state = await reading.state()
    assert journal.asked == ["newest"]
    with pytest.raises(StateUnknown, match=r"continues at the cursor.*no_data"):
        reading.check(state, Latest())
    for start in (Earliest(), AtCoordinates(Coordinates("binlog.000001", 4))):
        reading.check(state, start)
    journal.reading(recovers=False).check(state, Latest())
    # Its first start has carried the request out.
    (recovery,) = journal.ran(reading, opened(begun("orders")))
    assert recovery.why == "first start"
    assert await run(journal) == []
    reading.check(journal.state, Latest())


async def test_records_to_be_removed_precede_the_record_of_the_recovery() -> None:
    journal = Journal()
    journal.state.removed = (b"history/shop/x", b"resolved/shop/y")
    reading = journal.reading()
    state = await reading.state()
    notes = reading.notes(state, opened(begun("orders")))
    gone = [key for key, value in notes if is_tombstone(StoredRecord(key, value, 0))]
    assert gone == [b"history/shop/x", b"resolved/shop/y"]
    assert [key for key, _ in notes][2:] == [b"recovery/shop/last"]


async def test_while_the_mode_is_set_each_run_asks_to_set_it_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    journal = Journal()
    for expected in ("with 1 table(s); set", "which is done once; set"):
        caplog.clear()
        reading = journal.reading()
        state = await reading.state()
        (warning,) = reading.warnings(state, opened(begun("orders")))
        journal.ran(reading, opened())
        assert str(CURSOR.offset) in warning
        assert expected in warning
        assert warning in caplog.text
    journal.errors["newest"] = UNREADABLE
    reading = journal.reading()
    (warning,) = reading.warnings(await reading.state(), opened())
    assert (
        "could not be used: JournalUnreadable: x, key history/shop/s/b/4; set the mode" in warning
    )
    assert journal.reading(recovers=False).warnings(journal.state, opened()) == []
