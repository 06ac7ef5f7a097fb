"""Which tables a cut cannot show for a DROP or RENAME: what was carried out when, against where the cut is."""

from __future__ import annotations

import itertools

import pytest

from spark_sink.views.cuts.cut_tables import Moves
from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.moves import Event, History, Note, Place
from tests.unit.spark_sink.batch.drops_and_renames.statements import create, drop, rename

T, U, V = ("shop", "t"), ("shop", "u"), ("shop", "v")
AT: Place = (1, 5)


def event(place: Place = AT, **more: object) -> Event:
    body: dict[str, object] = {"moves": {T: U, U: None}, **more}
    return Event(destination="shop", epoch=place[0], seq=place[1], ts_ms=0, **body)  # type: ignore[arg-type]


def moves(
    *events: Event, cut: int, base: int | None, now: int | None, statements: tuple[str, ...] = ()
) -> Moves:
    history = History()
    history.add(events)
    history.done = {} if now is None else {"shop": (1, now)}
    return Moves(
        history=history,
        statements=statements,
        done={} if base is None else {"shop": (1, base)},
        positions={"shop": Position(1, cut, 0)},
    )


def test_a_table_is_in_a_cut_only_if_its_statement_is_before_cut_and_batch_or_not_done_at_all() -> (
    None
):
    shown = set()
    for cut, base, now in itertools.product((4, 5), (None, 5), (None, 5)):
        if not moves(event(), cut=cut, base=base, now=now).refused():
            shown.add((cut, base, now))
    # A batch that knows it before the history does is one that was read later.
    assert shown == {(5, 5, 5), (5, 5, None), (4, None, None)}


@pytest.mark.parametrize(
    ("cut", "base", "text"),
    [(5, None, "seq 5, which was not carried out yet"), (4, 5, "renamed after the cut, by the")],
)
def test_all_names_of_a_statement_are_refused_with_the_reason(
    cut: int, base: int | None, text: str
) -> None:
    refused = moves(event(), cut=cut, base=base, now=5).refused()
    assert refused.keys() == {T, U}
    assert text in refused[T]


def test_a_statement_that_no_merge_has_come_to_counts_from_its_place_on() -> None:
    statements = (create(6, "v"), drop(7, "v"), rename(8, ("t", "u")))
    assert moves(cut=6, base=None, now=None, statements=statements).refused() == {}
    assert moves(cut=7, base=None, now=None, statements=statements).refused().keys() == {V}
    assert moves(cut=9, base=None, now=None, statements=statements).refused().keys() == {T, U, V}


def test_a_statement_that_leaves_the_rows_where_they_are_refuses_no_table() -> None:
    kept = event(moves={}, notes=(Note(name=T, text="dropped"),))
    decided = moves(kept, cut=4, base=None, now=5, statements=(drop(5, "t"),))
    assert decided.refused() == {}


def test_rows_are_placed_by_what_was_carried_out_before_the_batch() -> None:
    first, second = event(), event((1, 8), moves={U: V})
    assert moves(first, second, cut=9, base=5, now=8).carried_out() == [first]


def test_a_destination_without_a_change_in_the_cut_is_before_all_its_statements() -> None:
    one = moves(event(), cut=9, base=None, now=None)
    other = Moves(history=one.history, statements=(), done={}, positions={})
    assert other.refused() == {}
    other.history.done = {"shop": AT}
    assert other.refused().keys() == {T, U}
