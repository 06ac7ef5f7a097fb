"""The rule of incarnations against a source, without Spark: rows are placed, tables moved, in Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from spark_sink.batch.drops_and_renames.decision import decided
from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.ledger import Source as Of
from spark_sink.warehouse.moves import Event, History, Name, Place, belongs, carried_floor, pieces
from tests.unit.spark_sink.batch.drops_and_renames.source import NAMES, Rows, Source, arrivals
from tests.unit.spark_sink.history import Change


@dataclass(slots=True)
class Model:
    """Tables with the last change of each key, and what the sink stores of DDL."""

    tables: dict[Name, dict[int, tuple[Place, int | None]]] = field(default_factory=dict)
    history: History = field(default_factory=History)
    floors: list[Floor] = field(default_factory=list)

    def follow(self, statements: list[str]) -> None:
        for text in statements:
            event = decided(
                parse_statement(text, "here"),
                on_drop="drop",
                on_rename="move",
                is_mapped=lambda _: False,
                floor=lambda _, name: self.floor(name),
                earlier=lambda *_: {},
                left=lambda *_: (),
                is_noted=lambda _: False,
            )
            self.history.add([event] if event is not None else [])
        found = pieces(self.history.pending())
        before, self.tables = self.tables, {}
        for name, rows in before.items():
            own = found.get(("shop", name), [(None, name)])
            for key, row in rows.items():
                self._put(belongs(own, row[0]), key, row)
        for event in self.history.pending():
            self.history.done["shop"] = event.place

    def floor(self, name: Name) -> Place | None:
        held = self.history.floors(self.floors)
        return max((one.place for one in held if (one.database, one.table) == name), default=None)

    def apply(self, changes: list[Change]) -> None:
        found = pieces(self.history.ordered())
        placed: list[tuple[Name, Change]] = []
        for change in changes:
            source = ("shop", change.table)
            name = belongs(found.get(("shop", source), [(None, source)]), change.place)
            if name is not None:
                placed.append((name, change))
        for name, change in placed:
            if change.op == "t":
                self._truncate(name, change)
        for name, change in placed:
            image = change.after or change.before
            floor = self.floor(name)
            if change.op != "t" and image and (floor is None or change.place >= floor):
                value = image["v"] if change.after else None
                self._put(name, image["id"], (change.place, value))

    def _truncate(self, name: Name, change: Change) -> None:
        epoch, seq = change.place
        begun = self.history.begun("shop", name)
        if begun is not None and change.place < begun.place:
            self.history.add([_carried(begun, name, change.place)])
        else:
            of = Of("shop", *name)
            self.floors.append(
                Floor(database=name[0], table=name[1], source=of, epoch=epoch, seq=seq, ts_ms=0)
            )
        for key, (place, value) in self.tables.get(name, {}).items():
            if place < change.place and value is not None:
                self.tables[name][key] = (change.place, None)

    def _put(self, name: Name | None, key: int, row: tuple[Place, int | None]) -> None:
        if name is not None:
            rows = self.tables.setdefault(name, {})
            if key not in rows or row[0] > rows[key][0]:
                rows[key] = row

    def rows(self, name: str) -> Rows:
        rows = self.tables.get(("shop", name), {})
        return {key: value for key, (_, value) in rows.items() if value is not None}


def _carried(event: Event, name: Name, place: Place) -> Event:
    one = Event(
        destination=event.destination,
        epoch=event.epoch,
        seq=event.seq,
        ts_ms=event.ts_ms,
        moves=event.moves,
        carried={name: place},
    )
    assert carried_floor(one, "shop", name).place == place
    return one


@pytest.mark.parametrize("seed", range(60))
def test_rows_and_statements_in_any_order_give_the_tables_of_the_source(seed: int) -> None:
    source = Source(random.Random(seed))
    source.play(60)
    model = Model()
    for statements, changes in arrivals(source, batches=4):
        model.follow(statements)
        model.apply(changes)
        model.apply(changes)
    assert {name: model.rows(name) for name in NAMES} == {
        name: source.tables.get(name, {}) for name in NAMES
    }
