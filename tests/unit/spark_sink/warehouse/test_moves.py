"""Where rows belong after DROP and RENAME, whenever they arrive."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import (
    Event,
    History,
    Name,
    Note,
    belongs,
    pieces,
    pieces_of,
    superseded,
    superseded_alters,
)

A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


def event(seq: int, moves: dict[Name, Name | None], **more: object) -> Event:
    return Event(destination="d", epoch=1, seq=seq, ts_ms=0, moves=moves, **more)  # type: ignore[arg-type]


def floor(name: Name, seq: int) -> Floor:
    source = Source("d", *name)
    return Floor(database=name[0], table=name[1], source=source, epoch=1, seq=seq, ts_ms=0)


def test_rows_before_a_swap_belong_to_the_other_name_and_later_ones_to_their_own() -> None:
    found = pieces([event(10, {A: B, B: A})])
    assert belongs(found["d", A], (1, 9)) == B
    assert belongs(found["d", A], (1, 11)) == A
    assert belongs(found["d", B], (1, 9)) == A
    # A later epoch is past it, whatever its numbers.
    assert belongs(found["d", A], (2, 3)) == A


def test_rows_belong_where_each_event_after_them_takes_them() -> None:
    names: list[Name] = [("shop", name) for name in "abcd"]
    rng = random.Random(7)
    events = []
    for at in range(1, 30):
        old, new = rng.sample(names, 2)
        moves: list[dict[Name, Name | None]] = [
            {old: None},
            {old: new, new: None},
            {old: new, new: old},
        ]
        events.append(event(at * 10, rng.choice(moves)))
    found = pieces(rng.sample(events, len(events)))
    for name in names:
        for seq in range(5, 300, 10):
            expected: Name | None = name
            for one in events:
                if one.seq > seq and expected is not None:
                    expected = one.moves.get(expected, expected)
            own = found.get(("d", name), [(None, name)])
            assert belongs(own, (1, seq)) == expected, (name, seq)


def test_a_name_that_is_dropped_again_and_again_has_one_piece() -> None:
    found = pieces([event(seq, {A: None}) for seq in range(1, 100)])
    assert found["d", A] == [((1, 99), None), (None, A)]


def test_a_truncate_moves_with_its_rows_and_leaves_the_name() -> None:
    history = History()
    history.add([event(10, {A: B, B: None}, carried={B: (1, 4)})])
    kept = [floor(A, 4), floor(B, 8), floor(C, 3)]
    assert {(one.table, one.seq) for one in history.floors(kept)} == {("b", 4), ("c", 3)}
    later = [floor(A, 12), floor(B, 14)]
    assert {(one.table, one.seq) for one in history.floors(later)} == {
        ("a", 12),
        ("b", 14),
        ("b", 4),
    }


def test_a_carried_truncate_only_rises() -> None:
    history = History()
    history.add([event(10, {A: B}, carried={B: (1, 4)})])
    history.add([event(10, {A: B}, carried={B: (1, 6)})])
    history.add([event(10, {A: B}, carried={B: (1, 5)})])
    assert history.events["d", (1, 10)].carried == {B: (1, 6)}


def test_the_last_note_of_a_name_holds_and_an_empty_one_ends_it() -> None:
    history = History()
    history.add([event(1, {}, notes=(Note(name=A, text="gone"), Note(name=B, text="gone")))])
    history.add([event(2, {}, notes=(Note(name=A, text=""),))])
    assert history.notes() == {B: ["gone"]}


def test_a_note_on_rows_of_a_source_table_ends_with_a_truncate_of_it_alone() -> None:
    history = History()
    kept = [Note(name=C, text=f"of {one[1]}", source=one, truncates=1) for one in (A, B)]
    history.add([event(4, {}, notes=kept)])
    of_a = replace(floor(C, 3), source=Source("d", *A))
    assert history.notes([of_a, replace(of_a, source=Source("e", *A), seq=9)]) == {
        C: ["of a", "of b"]
    }
    assert history.notes([replace(of_a, seq=4)]) == {C: ["of b"]}
    found = history.note_on(C, of_a.source)
    assert found is not None
    assert (found[0].place, found[1].text) == ((1, 4), "of a")
    assert history.note_on(C, Source("e", *A)) is None


def test_an_event_reads_as_it_was_stored() -> None:
    notes = Note(name=A, text="x"), Note(name=A, text="y", source=B, truncates=2, is_gone=True)
    one = event(3, {A: B, B: None}, removed=(A,), carried={B: (1, 2)}, notes=notes)
    assert Event.of("d", (1, 3), 0, one.text()) == one


NAMES: list[Name] = [("shop", name) for name in "abcdef"]


def at_random(rng: random.Random, number: int) -> list[Event]:
    """Statements of two destinations, with notes and truncates that moved."""
    events = []
    for at in range(1, number + 1):
        old, new, third = rng.sample(NAMES, 3)
        moves: dict[Name, Name | None] = rng.choice(
            [
                {old: None}, {old: new, new: None}, {old: new, new: old}, {old: new, third: old}, {},
                {old: new, new: ("shop", f"{new[1]}_dropped_{at % 9}")}, {old: new, new: third, third: old},
            ]
        )  # fmt: skip
        targets = [name for name in moves.values() if name is not None]
        events.append(
            Event(
                destination=rng.choice(["d", "e"]),
                epoch=1 + at // 20,
                seq=at,
                ts_ms=at,
                moves=moves,
                removed=[name for name, to in moves.items() if to is None],
                carried={name: (1, at) for name in targets if rng.random() < 0.2},
                notes=[
                    Note(
                        name=name,
                        text=rng.choice(["", f"at {at}"]),
                        is_gap=rng.random() < 0.3,
                        source=rng.choice([None, *NAMES[:2]]),
                    )
                    for name in {*moves, old}
                ],
            )
        )
    return events


def what_follows(events: Iterable[Event], floors: list[Floor]) -> dict[str, object]:
    """All that a sink or a reader does by the statements."""
    found = History()
    found.add(events)
    names = {name for event in found.events.values() for name in event.names}
    chains = {(d, one): found.names(d, one) for d in "de" for one in names}
    return {
        "pieces": pieces(found.events.values()),
        "chains": {at: chain for at, chain in chains.items() if chain},
        "notes": found.last_notes(floors),
        "floors": sorted(map(str, found.floors(floors))),
        "begun": {(d, one): found.begun(d, one) for d in "de" for one in names},
        "moved": {one for one in names if found.is_moved(one)},
        "concerned": names,
    }


@pytest.mark.parametrize("seed", range(20))
def test_nothing_follows_from_what_later_statements_supersede(seed: int) -> None:
    rng = random.Random(seed)
    events = at_random(rng, 80)
    floors = [floor(rng.choice(NAMES), rng.randrange(90)) for _ in range(5)]
    until = {"d": (rng.randrange(1, 5), rng.randrange(80)), "e": (9, 0)}
    gone = superseded(rng.sample(events, len(events)), until)
    kept = [one for one in events if one not in gone]
    assert what_follows(kept, floors) == what_follows(events, floors)
    assert all(one.place <= until[one.destination] for one in gone)
    # Nor if it is done in several steps, and statements follow.
    assert superseded(kept, until) == []
    more = [replace(one, epoch=one.epoch + 9) for one in at_random(rng, 40)]
    assert what_follows([*kept, *more], floors) == what_follows([*events, *more], floors)


def test_what_is_kept_of_statements_does_not_grow_with_renames() -> None:
    new, old = ("shop", "a_new"), ("shop", "a_old")

    def rounds(number: int, *, seq: int = 0) -> list[Event]:
        """A table that is built beside another, swapped in, and the other dropped, again and again."""
        found = []
        for _ in range(number):
            found.append(event(seq + 1, {A: old, new: A}, notes=[Note(name=A, text="")]))
            found.append(event(seq + 2, {old: None}, notes=[Note(name=old, text=f"at {seq}")]))
            seq += 2
        return found

    def kept(number: int) -> int:
        events = rounds(number)
        return len(events) - len(superseded(events, {"d": (1, 2 * number)}))

    assert kept(3) == kept(2000) < 6


def test_only_the_rows_of_the_tables_that_are_asked_for_are_placed() -> None:
    other: list[Name] = [("shop", f"a_dropped_{number}") for number in range(100)]
    found = pieces([event(10 * at, {A: one}) for at, one in enumerate(other, 1)])
    assert len(found["d", A]) == 101
    assert pieces_of(found, [A]) == {("d", A): [((1, 1000), None), (None, A)]}
    assert pieces_of(found, [other[1], C]) == {
        ("d", A): [((1, 10), None), ((1, 20), other[1]), (None, None)]
    }
    assert pieces_of(found, [C]) == {}


def test_of_statements_that_only_alter_a_table_the_first_and_last_under_each_name_are_kept() -> (
    None
):
    history, number = History(), 1000
    for seq in range(1, number):
        if seq % 400 == 0:
            history.add([event(seq, {A: B, B: A})])
            continue
        # The numbers of versions continue, whichever table has the name.
        history.add([event(seq, {}, altered=((A, seq), *([(C, seq)] if seq == 500 else [])))])
    assert len(history.alters) == number - 1 - 2
    assert superseded_alters(history, {}) == []
    gone = superseded_alters(history, {"d": (1, 700)})
    of_a = [one.seq for one in gone if any(name == A for name, _ in one.altered)]
    assert [seq for seq in of_a if seq > 400][-1] == 700
    for one in superseded_alters(history, {"d": (1, number)}):
        del history.alters["d", one.place]
    assert [one.seq for one in history.since({}) if one.altered] == [
        1, 399, 401, 500, 799, 801, 999,
    ]  # fmt: skip
    assert history.pending() == history.since({"e": (1, 1)})
    stored = [Event.of("d", one.place, 0, one.text()) for one in history.since({})]
    assert stored == history.since({})
    again = History()
    again.add(stored)
    assert (again.events, again.alters) == (history.events, history.alters)
