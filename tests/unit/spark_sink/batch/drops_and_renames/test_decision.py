"""What is decided about statements, by the settings and by what the warehouse has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from spark_sink.batch.drops_and_renames.decision import decided
from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.settings.model import OnDrop, OnRename
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import Event, History, Name, Place
from tests.unit.spark_sink.batch.drops_and_renames.statements import create, drop, record, rename

A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


def event(
    text: str,
    *,
    on_drop: OnDrop = "keep",
    on_rename: OnRename = "move",
    mapped: Collection[Name] = (),
    noted: Collection[Name] = (),
    floor: Place | None = None,
    earlier: Mapping[Name, Collection[Name]] = MappingProxyType({}),
    gone: Mapping[Name, Collection[Name]] = MappingProxyType({}),
) -> Event | None:
    return decided(
        parse_statement(text, "here"),
        on_drop=on_drop,
        on_rename=on_rename,
        is_mapped=mapped.__contains__,
        floor=lambda _, name: floor if name == A else None,
        is_noted=noted.__contains__,
        earlier=lambda *_: earlier,
        left=lambda _, name: gone.get(name, ()),
    )


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


DROPPED = ("shop", "a__dropped_19700101001640_9")


def test_a_table_that_is_dropped_or_made_again_is_another_one_and_its_rows_get_a_name_of_their_own() -> (
    None
):
    moved = event(drop(9, "a"), on_drop="rename", floor=(1, 4))
    assert moved is not None
    assert (dict(moved.moves), moved.removed) == ({A: DROPPED}, ())
    assert dict(moved.carried) == {DROPPED: (1, 4)}
    assert noted(moved) == {
        A: "",
        DROPPED: "was shop.a until 1970-01-01T00:16:40Z, when the source dropped it",
    }
    # Rows that an earlier setting kept.
    again = event(create(9, "a"), on_drop="rename", noted={A})
    assert again is not None
    assert dict(again.moves) == {A: DROPPED}
    taken = event(rename(9, ("b", "a")), on_drop="rename")
    assert taken is not None
    assert dict(taken.moves) == {B: A, A: DROPPED}
    assert event(create(9, "a"), on_drop="rename") is None
    assert event(drop(9, "a"), on_drop="rename", mapped={A}) is None


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


def stated(kind: str, table: str, logical: str = "logical") -> dict[str, Any]:
    """An effect on a mapped table, as a worker states it."""
    return {
        "kind": kind,
        "database": "shop",
        "table": table,
        "logical": {"database": "trade", "table": logical},
    }


LOGICAL = ("trade", "logical")


def test_rows_of_a_mapped_table_stay_under_its_logical_name_only_if_nothing_removes_them() -> None:
    gone = stated("table dropped", "a")
    assert event(drop(9, "a", effects=[gone]), on_drop="rename") is None
    # It is mapped no more, and has rows from when it was.
    former = {**gone, "logical": None}
    left = event(drop(9, "a", effects=[former]), on_drop="rename", mapped={A})
    assert left is not None
    (note,) = left.notes
    assert (note.name, note.source, note.is_gone, dict(left.moves)) == (A, A, True, {})
    assert note.text == (
        "shop.a was dropped at the source 1970-01-01T00:16:40Z; its rows from before are kept, as a mapping "
        "applied to them; to remove them, run: python -m spark_sink reload shop.a --discard --source "
        "shop:shop.a"
    )
    kept = event(drop(9, "a", effects=[gone, stated("truncate omitted", "a")]), on_drop="rename")
    assert kept is not None
    (note,) = kept.notes
    assert (note.name, note.source, note.is_gap, dict(kept.moves)) == (LOGICAL, A, False, {})
    assert note.text.startswith(
        "shop.a was dropped or renamed at the source 1970-01-01T00:16:40Z; "
    )
    assert note.is_gone
    command = "python -m spark_sink reload trade.logical --discard --source shop:shop.a"
    assert note.text.endswith(f"; to remove them, run: {command}")
    emptied = event(record(9, "TRUNCATE a", effects=[stated("truncate omitted", "a")]))
    assert emptied is not None
    (note,) = emptied.notes
    # These rows go by the same command, and the table is still there.
    assert (note.is_gone, note.keeps_rows) == (False, True)
    assert note.text.endswith(command)


def test_rows_that_an_earlier_mapping_put_elsewhere_are_noted_there_when_their_table_goes() -> None:
    other = ("trade", "other")
    gone = stated("table dropped", "a")
    for effects in ([gone], [{**gone, "logical": None}]):
        is_mapped = effects == [gone]
        left = event(
            drop(9, "a", effects=effects),
            on_drop="rename",
            mapped={LOGICAL, other},
            earlier={A: [LOGICAL, other, C]},
        )
        assert left is not None
        notes = {note.name: note for note in left.notes if note.source}
        # The worker publishes the effect on the rows under the present name, and C has rows of C alone.
        assert notes.keys() == ({other} if is_mapped else {LOGICAL, other})
        assert (notes[other].source, notes[other].is_gone) == (A, True)
        assert notes[other].text.startswith("shop.a was dropped at the source")
        assert notes[other].text.endswith("trade.other --discard --source shop:shop.a")
    moved = event(rename(9, ("a", "b")), mapped={LOGICAL}, earlier={A: [LOGICAL]})
    assert noted(moved)[LOGICAL].startswith("shop.a was renamed at the source")


def test_a_table_that_is_made_again_has_its_earlier_rows_where_they_were_left() -> None:
    again = event(create(9, "a"), gone={A: [LOGICAL]}, mapped={LOGICAL})
    assert again is not None
    (note,) = again.notes
    assert (note.name, note.source, note.is_gone, note.keeps_rows) == (LOGICAL, A, False, True)
    assert note.text.startswith(
        "the source has another shop.a since 1970-01-01T00:16:40Z; the rows of the earlier one are kept"
    )
    assert note.text.endswith("trade.logical --discard --source shop:shop.a")
    taken = event(rename(9, ("b", "a")), gone={A: [LOGICAL]}, mapped={LOGICAL})
    assert noted(taken)[LOGICAL].startswith("the source has another shop.a since")
    effects = [stated("table comes in", "a")]
    came = event(rename(9, ("b", "a"), effects=effects), gone={A: [LOGICAL]}, mapped={LOGICAL})
    assert noted(came)[LOGICAL].startswith("shop.a was renamed at the source"), "all will come"


def test_a_rename_of_a_mapped_table_moves_no_row_and_says_until_when_rows_are_missing() -> None:
    effects = [stated("table renamed", "a"), stated("table comes in", "b")]
    moved = event(rename(9, ("a", "b"), effects=effects), on_drop="rename")
    assert moved is not None
    (note,) = moved.notes
    assert (note.name, note.source, note.is_gap, dict(moved.moves)) == (LOGICAL, B, True, {})
    begins = "shop.b was renamed at the source 1970-01-01T00:16:40Z from a table that a mapping"
    assert note.text.startswith(begins)
    assert note.text.endswith("Run: python -m app snapshot start shop shop.b --replace")
    history = History()
    history.add([Event.of(moved.destination, moved.place, moved.ts_ms, moved.text())])
    other = Floor(
        database=LOGICAL[0],
        table=LOGICAL[1],
        source=Source("shop", *C),
        epoch=1,
        seq=12,
        ts_ms=1,
    )
    assert history.gaps([other]) == {LOGICAL}, "the rows of another source table"
    own = replace(other, source=Source("shop", *B))
    assert history.gaps([own]) == set()
    # The statement's own truncate of the name that it frees, which another table may take.
    assert history.gaps([replace(own, seq=10)]) == {LOGICAL}
    assert history.gaps([replace(own, seq=11)]) == set()


def test_a_table_that_leaves_its_name_for_a_mapped_one_or_takes_it_from_one_is_another() -> None:
    into = [stated("table comes in", "b")]
    left = event(rename(9, ("a", "b"), effects=into), on_drop="rename")
    assert left is not None
    assert dict(left.moves) == {A: DROPPED}
    out_of = [stated("table renamed", "b"), {**stated("table comes in", "a"), "logical": None}]
    taken = event(rename(9, ("b", "a"), effects=out_of), on_drop="rename")
    assert taken is not None
    assert dict(taken.moves) == {A: DROPPED}
    texts = noted(taken)
    assert "from a table that a mapping names" in texts[A]
    # What is not mapped in the same statement moves as ever.
    both = event(rename(9, ("a", "b"), ("c", "d"), effects=effects_of("a", "b")), on_drop="rename")
    assert both is not None
    assert dict(both.moves)[C] == ("shop", "d")


def effects_of(old: str, new: str) -> list[dict[str, Any]]:
    return [stated("table renamed", old), stated("table comes in", new)]


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
    omitted = {"kind": "truncate omitted", "database": "shop", "table": "a"}
    assert (
        "rows from before are kept" in noted(event(record(9, "TRUNCATE a", effects=[omitted])))[A]
    )
    came = noted(event(record(9, "RENAME …", effects=[comes])))[A]
    assert came.endswith(
        "from a table that is not captured; its earlier rows are in no topic. "
        "Run: python -m app snapshot start shop shop.a --replace"
    )
    # As the worker knows them, with the other table of an exchange too.
    effects = [
        {"kind": "rows changed", "database": "shop", "table": name, "new": "EXCHANGE PARTITION"}
        for name in "ab"
    ]
    found = noted(
        event(record(9, "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", effects=effects))
    )
    assert found.keys() == {A, B}
    computed = {"kind": "column generated", "database": "shop", "table": "a", "column": "g"}
    text = noted(event(record(9, "ALTER TABLE a MODIFY g …", effects=[computed])))[A]
    assert text.startswith("recomputation of g at the source")


def test_a_statement_on_partitions_leaves_a_gap_with_what_to_do_until_the_table_is_gone() -> None:
    history = History()

    def gaps(text: str, **more: Any) -> set[Name]:
        found = event(text, **more)
        assert found is not None
        history.add([Event.of(found.destination, found.place, found.ts_ms, found.text())])
        return history.gaps()

    assert gaps(record(9, "ALTER TABLE a DROP PARTITION p1")) == {A}
    (text,) = history.notes()[A]
    assert "in no topic, so no reload helps. Run: python -m app snapshot start shop shop.a" in text
    floor = Floor(database="shop", table="a", source=Source("shop", *A), epoch=1, seq=8, ts_ms=0)
    assert history.gaps([floor]) == {A}
    # A snapshot that replaces the rows begins with the record of a truncate.
    assert history.gaps([replace(floor, seq=11)]) == set()
    assert history.notes([replace(floor, seq=11)]) == {}
    assert gaps(record(10, "ALTER TABLE a EXCHANGE PARTITION p1 WITH TABLE b")) == {A}
    assert gaps(drop(11, "a"), on_drop="truncate") == set()
