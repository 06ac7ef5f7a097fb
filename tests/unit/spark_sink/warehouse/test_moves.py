"""Where rows belong after DROP and RENAME, whenever they arrive."""

from __future__ import annotations

import random

from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import Event, History, Name, Note, belongs, pieces

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


def test_an_event_reads_as_it_was_stored() -> None:
    one = event(
        3, {A: B, B: None}, removed=(A,), carried={B: (1, 2)}, notes=(Note(name=A, text="x"),)
    )
    assert Event.of("d", (1, 3), 0, one.text()) == one
