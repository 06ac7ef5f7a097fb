"""The applied position of each of a table's sources, for the purge of markers."""

from __future__ import annotations

from spark_sink.text.quoting import SOURCES
from spark_sink.warehouse.maintenance_schedule import Sources
from tests.harness.memory_warehouse import MemoryNotes

TABLE = ("shop", "t")
TIMED_OUT = 901.0
"""Seconds after which a transaction that was open has ended."""


def sources(notes: MemoryNotes, newest: dict[str, int], *published: str) -> Sources:
    return Sources(notes=notes, of_table=lambda _: published, newest=newest)


def test_the_single_source_of_a_table_holds_nothing_back() -> None:
    assert sources(MemoryNotes(), {}).all_past(TABLE, {"shop"}) == float("inf")
    assert sources(MemoryNotes(), {}, "shop").all_past(TABLE, {"shop"}) == float("inf")


def test_a_source_that_has_published_the_tables_columns_counts_without_a_row() -> None:
    known = sources(MemoryNotes(), {"shop": 50}, "shop", "crm")
    known.settle(0, 0)
    known.settle(TIMED_OUT, TIMED_OUT)
    assert known.all_past(TABLE, {"shop"}) == 0


def test_what_is_applied_is_certain_once_kafka_is_applied_past_any_open_transaction() -> None:
    newest = {"shop": 50, "crm": 40}
    known = sources(MemoryNotes(), newest, "crm")
    known.settle(1000, 1000)
    newest["crm"] = 60
    known.settle(5000, 1000 + TIMED_OUT - 2)
    assert known.all_past(TABLE, {"shop"}) == 0
    # The sample that is certain is the one from before.
    known.settle(5000, 1000 + TIMED_OUT)
    assert known.all_past(TABLE, {"shop"}) == 40
    known.settle(6000, 5000 + TIMED_OUT)
    assert known.all_past(TABLE, {"shop"}) == 50


def test_the_next_process_knows_what_this_one_did() -> None:
    notes = MemoryNotes()
    first = sources(notes, {"shop": 50, "crm": 40}, "crm")
    first.settle(1000, 1000)
    first.keep()
    second = sources(notes, {}, "crm")
    second.settle(5000, 1000 + TIMED_OUT)
    assert second.all_past(TABLE, {"shop"}) == 40
    second.keep()
    assert sources(notes, {}, "crm").all_past(TABLE, {"shop"}) == 40


def test_a_file_that_was_cut_off_only_keeps_markers_longer() -> None:
    notes = MemoryNotes()
    notes.write(SOURCES, '{"version": 1, "cer')
    known = sources(notes, {}, "crm")
    known.settle(1000, 1000)
    assert known.all_past(TABLE, {"shop"}) == 0
