"""A table is not rebuilt from its topics as long as it has rows that were loaded, and is once it has none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from spark_sink.errors import ReloadRefused
from spark_sink.jobs.load.state import LOADED, READING, LoadState, has_rows_of
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.moves import Event, Name, pieces
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, schema
from tests.unit.spark_sink.jobs.load.test_in_place import (
    COLUMNS,
    LOW,
    SOURCE,
    Loading,
    image,
    values,
)

A, B, C = ("shop", "t"), ("shop", "b"), ("shop", "c")
REFUSED = "were loaded from the source, and are not in its topics"


@pytest.fixture
def at(warehouse: Warehouse) -> Loading:
    made = Loading(warehouse.spark, Path(warehouse.path))
    made.schemas = [schema(*COLUMNS)]
    return made


@pytest.mark.spark
@pytest.mark.long("test_in_place.py has the refusal, the other tests when it ends")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_truncate_ends_the_refusal_and_another_load_that_has_begun_does_not(at: Loading) -> None:
    at.take(Change(op="c", seq=1, after=image(1, 10)))
    state = at.loaded((1, 10), (2, 20), offset=at.ends()[TOPIC])
    at.reload(topics=(TOPIC[0],), load=state.number)
    # The command has ended before it could record that, and another load has read a part.
    at.loads.keep(replace(state, number="n2", state=READING))
    with pytest.raises(ReloadRefused, match=REFUSED):
        at.reload(from_beginning=True, topics=(TOPIC[0],))
    assert values(at) == {1: 10, 2: 20}
    at.loads.keep(replace(state, state=LOADED))
    at.take(Change(op="t", seq=101), Change(op="c", seq=102, after=image(3, 30)))
    at.restart()
    at.reload(from_beginning=True, topics=(TOPIC[0],))
    assert values(at) == {3: 30}


def state_of(name: Name, *, seq: int = LOW.seq, mapped: Collection[str] = ()) -> LoadState:
    low = replace(LOW, seq=seq, written_ms=seq)
    sources = [replace(SOURCE, database=name[0], table=name[1])]
    if mapped:
        sources = [replace(SOURCE, table=table, is_mapped=True) for table in mapped]
    return LoadState(
        number=f"n{seq}",
        name=name,
        sources=tuple(sources),
        lows={"shop": low},
        offsets={},
        ranges=(),
        columns=(),
        apart=bool(mapped),
    )


def moved(seq: int, moves: Mapping[Name, Name | None]) -> Event:
    return Event(destination="shop", epoch=1, seq=seq, ts_ms=seq, moves=moves)


def having(states: list[LoadState], *events: Event, **floors: int) -> set[Name]:
    """The tables that still have rows of the loads; `floors` are truncates of tables of `shop`."""
    found = pieces(events)
    own = {Source("shop", "shop", table): (1, seq) for table, seq in floors.items()}
    return {name for name in (A, B, C) if has_rows_of(name, states, found, own)}


def test_rows_go_with_their_table_and_are_gone_with_it() -> None:
    loaded = [state_of(A)]
    assert having(loaded) == {A}
    assert having(loaded, moved(150, {A: B})) == {B}
    assert having(loaded, moved(150, {A: None})) == set()
    assert having(loaded, moved(150, {A: B}), moved(160, {B: None})) == set()
    # What came before the load concerns other rows.
    assert having(loaded, moved(50, {A: B})) == {A}
    assert having(loaded, t=100) == {A}
    assert having(loaded, t=101) == set()
    assert having(loaded, moved(150, {A: B}), t=170) == {B}
    assert having(loaded, moved(150, {A: B}), b=170) == set()


def test_a_later_load_replaces_the_rows_of_an_earlier_one_but_not_those_that_have_moved() -> None:
    both = [state_of(A), state_of(A, seq=200)]
    assert having(both, t=150) == {A}
    assert having(both, t=201) == set()
    assert having(both, moved(150, {A: B})) == {A, B}
    assert having(both, moved(150, {A: B}), t=201) == {B}
    assert having(both, moved(250, {A: None})) == set()
    # A swap brings rows of the first one back.
    assert having(both, moved(150, {A: B}), moved(250, {A: C, B: A}), b=1) == {A, C}


def test_each_source_of_a_table_is_to_be_truncated() -> None:
    loaded = [state_of(A, mapped=["t_0", "t_1"])]
    assert having(loaded, t_0=101) == {A}
    assert having(loaded, t_0=101, t_1=101) == set()
    # A mapping decides about tables that are renamed or dropped.
    assert having(loaded, moved(150, {A: None, ("shop", "t_0"): None})) == {A}
    # One that is gone is not in the next load.
    again = [*loaded, state_of(A, mapped=["t_1"], seq=200)]
    assert having(again, t_1=201) == set()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_state_that_a_crash_has_torn_concerns_its_table_alone(at: Loading) -> None:
    torn, whole = replace(state_of(A), state=LOADED), replace(state_of(B, seq=200), state=LOADED)
    for one in (torn, whole):
        at.loads.keep(one)
    at.kept.notes.write("__loads/shop/t/state.json", torn_text := '{"version": 1, "num')
    at.kept.notes.write("__loaded/n100.json", torn_text)
    assert at.loads.of(A) is None
    assert at.loads.of(B) == whole
    assert at.loads.placed() == [whole]
