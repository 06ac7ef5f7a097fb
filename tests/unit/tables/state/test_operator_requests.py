"""The desired state of a destination in the journal."""

from __future__ import annotations

import pytest

from connectors.errors import JournalDamaged, JournalTooNew
from connectors.kafka.reading import StoredRecord
from tables.state.journal.checkpoint import MemoryCheckpoint, records_of
from tables.state.journal.state import fold
from tables.state.operator_requests import Control, DesiredState, control_in, control_note

PAUSED = Control(destination="shop", desired=DesiredState.PAUSE, restart="1", by="ann", ts_ms=5)


def record(control: Control, offset: int) -> StoredRecord:
    return StoredRecord(*control_note(control), offset)


def test_it_reads_what_it_wrote() -> None:
    assert control_in(record(PAUSED, 0)) == PAUSED


def test_the_last_word_counts() -> None:
    later = Control(destination="shop", by="bob", ts_ms=4)
    assert fold("shop", [record(PAUSED, 1), record(later, 2)]).control == later


def test_an_older_record_that_comes_again_changes_nothing() -> None:
    later = Control(destination="shop", by="bob")
    assert fold("shop", [record(later, 2), record(PAUSED, 1)]).control == later


def test_the_word_on_another_destination_changes_nothing() -> None:
    assert fold("shop-2", [record(PAUSED, 1)]).control is None


def test_a_checkpoint_keeps_it() -> None:
    checkpoint = MemoryCheckpoint()
    checkpoint.fold(record(PAUSED, 7))
    assert fold("shop", records_of("shop", checkpoint.rows)).control == PAUSED


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b'{"format":1}', JournalDamaged),
        (b'{"format":1,"destination":"shop","wish":"dance"}', JournalDamaged),
        (b'{"format":2}', JournalTooNew),
    ],
)
def test_what_is_no_such_record_is_refused_by_name(value: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        control_in(StoredRecord(b"control/shop/wish", value, 0))
