"""The note of the columns in which rows lack values."""

from __future__ import annotations

from spark_sink.warehouse.columns import Move
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.unknown_values import note, noted
from tests.harness.memory_warehouse import MemoryNotes

NAME = ("shop", "t")


def test_a_note_that_a_crash_has_torn_counts_as_absent_and_is_written_again() -> None:
    notes = MemoryNotes()
    move = Move(column="c", source=Source("shop", "shop", "t"), until=2, reason="not known")
    note(notes, NAME, [move])
    assert noted(notes, NAME) == [move]
    (path,) = notes.names("__columns")
    notes.write(f"__columns/{path}", '{"version": 1, "col')
    assert noted(notes, NAME) == []
    note(notes, NAME, [move])
    assert noted(notes, NAME) == [move]
