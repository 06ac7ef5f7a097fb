"""What is done about a statement, by the settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from spark_sink.ddl.decision import Rules, decided
from spark_sink.ddl.statement import parse_statement
from spark_sink.warehouse.moves import Event, History, Name, Place
from tests.unit.spark_sink.ddl.statements import create, drop, record, rename

A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


def event(
    text: str,
    *,
    on_drop: Literal["keep", "truncate", "drop"] = "keep",
    on_rename: Literal["move", "keep"] = "move",
    mapped: Collection[Name] = (),
    noted: Collection[Name] = (),
    floor: Place | None = None,
) -> Event | None:
    rules = Rules(
        on_drop=on_drop,
        on_rename=on_rename,
        is_mapped=mapped.__contains__,
        floor=lambda _, name: floor if name == A else None,
        is_noted=noted.__contains__,
    )
    return decided(parse_statement(text, "here"), rules)


def noted(event: Event | None) -> dict[Name, str]:
    assert event is not None
    return {note.name: note.text for note in event.notes}


def test_a_dropped_table_keeps_its_rows_with_a_note_unless_they_are_to_go() -> None:
    kept = event(drop(9, "a"))
    assert kept is not None
    assert (dict(kept.moves), kept.removed) == ({}, ())
    assert "1970-01-01T00:16:40Z; its rows are kept (on_drop: keep)" in noted(kept)[A]
    emptied = event(drop(9, "a"), on_drop="truncate")
    assert emptied is not None
    assert (dict(emptied.moves), emptied.removed) == ({A: None}, ())
    removed = event(drop(9, "a"), on_drop="drop")
    assert removed is not None
    assert (dict(removed.moves), removed.removed, noted(removed)) == ({A: None}, (A,), {A: ""})


def test_a_renamed_table_takes_its_rows_and_its_truncates_and_ends_what_was_left_there() -> None:
    moved = event(rename(9, ("a", "b")), floor=(1, 4))
    assert moved is not None
    assert dict(moved.moves) == {A: B, B: None}
    assert dict(moved.carried) == {B: (1, 4)}
    swapped = event(rename(9, ("a", "t"), ("b", "a"), ("t", "b")))
    assert swapped is not None
    assert dict(swapped.moves) == {A: B, B: A}


def test_a_table_that_keeps_its_rows_says_where_those_of_each_name_are() -> None:
    notes = noted(event(rename(9, ("a", "t"), ("b", "a"), ("t", "b")), on_rename="keep"))
    assert "renamed to shop.b" in notes[A]
    assert "was shop.b until" in notes[A]
    assert "renamed to shop.a" in notes[B]
    stays = event(rename(9, ("a", "b")), mapped={B})
    assert stays is not None
    assert dict(stays.moves) == {}
    assert "a mapping fills shop.b" in noted(stays)[A]


def test_a_mapping_says_what_a_drop_of_its_tables_does() -> None:
    assert event(drop(9, "a"), on_drop="drop", mapped={A}) is None


def test_a_table_created_again_ends_the_note_or_says_what_is_still_in_it() -> None:
    assert event(create(9, "a")) is None
    assert "are still in it" in noted(event(create(9, "a"), noted={A}))[A]
    assert noted(event(create(9, "a"), noted={A}, on_drop="truncate")) == {A: ""}


def test_rows_that_no_record_removes_are_noted() -> None:
    assert (
        "DROP PARTITION at the source"
        in noted(event(record(9, "ALTER TABLE a DROP PARTITION p")))[A]
    )
    comes = {"kind": "table comes in", "database": "shop", "table": "a"}
    assert "not captured" in noted(event(record(9, "RENAME …", effects=[comes])))[A]
    omitted = {"kind": "truncate omitted", "database": "shop", "table": "a"}
    assert (
        "rows from before are kept" in noted(event(record(9, "TRUNCATE a", effects=[omitted])))[A]
    )


def test_a_statement_on_partitions_leaves_a_gap_with_what_to_do_until_the_table_is_gone() -> None:
    history = History()

    def gaps(text: str, **more: Any) -> set[Name]:
        found = event(text, **more)
        assert found is not None
        history.add([Event.of(found.destination, found.place, found.ts_ms, found.text())])
        return history.gaps()

    assert gaps(record(9, "ALTER TABLE a DROP PARTITION p1")) == {A}
    (text,) = history.notes()[A]
    assert (
        "in no topic, so no reload helps; delete the partition's rows in the warehouse too" in text
    )
    assert gaps(record(10, "ALTER TABLE a EXCHANGE PARTITION p1 WITH TABLE b")) == {A}
    (text,) = history.notes()[A]
    assert text.endswith("and write those that came in again at the source")
    assert gaps(drop(11, "a"), on_drop="truncate") == set()
