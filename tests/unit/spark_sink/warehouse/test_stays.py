"""Tables that change their names: what their rows have in columns that were altered at any place between."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from spark_sink.batch.drops_and_renames.decision import decided
from spark_sink.batch.drops_and_renames.statement import parse_statement
from spark_sink.source.schemas import Column, Constant, SchemaBook, TableVersion
from spark_sink.warehouse.columns import Asked, traced
from spark_sink.warehouse.moves import (
    BEGINNING,
    Event,
    History,
    Name,
    Place,
    belongs,
    pieces,
    present,
)
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.stays import Stay, carried, known_stays
from tests.unit.spark_sink.batch.drops_and_renames.altering import Source, late, rounded
from tests.unit.spark_sink.history import Change, Image
from wire.table_version import VersionKey

SHOP = "shop"


@dataclass
class Row:
    place: Place
    schema: int
    values: Image | None
    """None of a deleted row."""


@dataclass
class Table:
    shape: Shape
    rows: dict[int, Row] = field(default_factory=dict)


@dataclass
class Sink:
    """What the sink makes of batches, without Spark."""

    book: SchemaBook
    history: History = field(default_factory=History)
    tables: dict[Name, Table] = field(default_factory=dict)

    def take(self, batch: list[Change | str]) -> None:
        events: list[Event] = []
        for one in batch:
            if isinstance(one, str):
                event = decided(
                    parse_statement(one, ""),
                    on_drop="rename",
                    on_rename="move",
                    is_mapped=lambda _: False,
                    floor=lambda *_: None,
                    is_noted=lambda _: False,
                    earlier=lambda *_: {},
                    left=lambda *_: (),
                )
                assert event is not None
                events.append(event)
        self.history.add(events)
        self.move()
        found = pieces(self.history.events.values())
        parts: dict[Name, list[Change]] = {}
        altered: dict[Name, list[tuple[VersionKey, Place]]] = {}
        for event in events:
            for own, version in event.altered:
                target = present(found, event, own)
                if target in self.tables:
                    key = VersionKey(SHOP, *own, version)
                    altered.setdefault(target, []).append((key, event.place))
                    parts.setdefault(target, [])
        for one in batch:
            if isinstance(one, Change):
                own = (SHOP, one.table)
                target = belongs(found.get((SHOP, own), [(None, own)]), one.place)
                assert target is not None
                parts.setdefault(target, []).append(one)
        for name, changes in parts.items():
            self.merge(name, changes, altered.get(name, []))

    def move(self) -> None:
        """Carries out the events that are pending."""
        pending = self.history.pending()
        moved: dict[Name, Table] = {}
        for (_, name), own in pieces(pending).items():
            for key, row in self.tables[name].rows.items() if name in self.tables else ():
                target = belongs(own, row.place)
                assert target is not None
                if target not in moved:
                    moved[target] = Table(self.named(self.tables[name].shape, target))
                moved[target].rows[key] = row if target == name else replace(row, schema=0)
        for _, name in pieces(pending):
            self.tables.pop(name, None)
        self.tables |= moved
        for event in pending:
            self.history.done[SHOP] = event.place

    def named(self, shape: Shape, name: Name) -> Shape:
        def newest(_: str, own: Name) -> int:
            return max((row.schema for row in self.tables[own].rows.values()), default=0)

        names, shapes = self.history.names(SHOP, name), {n: t.shape for n, t in self.tables.items()}
        done = self.history.done.get(SHOP, BEGINNING)
        stays = carried(names, done, shapes, SHOP, newest=newest)
        followed = tuple(sorted(one.entry(SHOP) for one in stays))
        return replace(shape, database=name[0], table=name[1], followed=followed)

    def merge(
        self, name: Name, changes: list[Change], altered: list[tuple[VersionKey, Place]]
    ) -> None:
        table = self.tables.get(name)
        spans: dict[VersionKey, tuple[Place, Place]] = {}
        rows_of = [
            (VersionKey(SHOP, SHOP, one.table, one.version or 0), one.place) for one in changes
        ]
        for key, place in [*rows_of, *altered]:
            low, high = spans.get(key, (place, place))
            spans[key] = min(low, place), max(high, place)
        versions = [replace(v, places=spans[k]) for k, v in self.book.versions(spans).items()]
        rows = table.rows.values() if table is not None else ()
        newest = max((row.schema for row in rows), default=-1)
        found = traced(
            self.book,
            table.shape if table is not None else None,
            versions,
            Asked(newest=lambda _: newest, is_only=lambda _: True),
            name=name,
            names=self.history.names,
        )
        for row in rows:
            if row.values is None:
                continue
            values = dict(row.values)
            for move in found.moves:
                assert move.taken_from is None
                if row.schema <= move.until:
                    values[move.column] = move.constant and move.constant.text
            for how in found.conversions:
                if how.is_stored and row.schema < how.below and values.get(how.column):
                    values[how.column] = rounded(values[how.column])
            row.values = values
        wanted = found.wanted
        if table is None:
            table = self.tables[name] = Table(wanted)
        table.shape = wanted
        by_key = {one.key: one for one in found.versions}
        for one in changes:
            key = VersionKey(SHOP, SHOP, one.table, one.version or 0)
            schema = one.version or 0 if (SHOP, one.table) == name else 0
            image = one.after or one.before or {}
            held = table.rows.get(image["id"])
            if held is None or held.place < one.place:
                merged = None if one.op == "d" else placed(by_key[key], image)
                table.rows[image["id"]] = Row(one.place, schema, merged)


def placed(version: TableVersion, image: Image) -> Image:
    """An image with the columns as they are now."""
    found: dict[str, Any] = {}
    for name, column in version.present:
        if isinstance(column, Constant):
            found[name] = column.text
            continue
        assert isinstance(column, Column)
        found[name] = image[column.name]
        for _ in column.altered:
            found[name] = rounded(found[name])
    return found


def number(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)


def compared(sink: Sink, source: Source, columns: Mapping[str, Any] | None = None) -> None:
    for name, table in source.tables.items():
        held = sink.tables.get((SHOP, name))
        rows = held.rows if held is not None else {}
        found = {
            key: {own: number(row.values.get(own)) for own in columns or table.columns}
            for key, row in rows.items()
            if row.values is not None
        }
        wanted = {
            key: {own: number(value) for own, value in row.items()}
            for key, row in table.rows.items()
        }
        assert found == wanted, name


@pytest.mark.parametrize("delays", [(0,), (0, 0, 6, 14)])
@pytest.mark.parametrize("seed", range(60))
def test_batches_in_any_order_give_the_rows_that_the_source_has(
    seed: int, delays: tuple[int, ...]
) -> None:
    source = Source(random.Random(seed), announces=seed % 4 > 0)
    while len(source.written) < 60:
        source.step()
    if not source.announces:
        source.end()
    sink = Sink(SchemaBook(lambda: source.schemas))
    for batch in late(source, batches=1 + seed % 8, delays=delays):
        sink.take(batch)
    compared(sink, source)
    # All of it comes once more.
    sink.take(source.written)
    compared(sink, source)


def test_a_table_is_known_by_the_statements_at_which_it_took_its_names() -> None:
    t, o = (SHOP, "t"), (SHOP, "o")
    names = [(t, BEGINNING), (o, (1, 5)), (t, (1, 9))]
    held = known_stays(names, [(SHOP, *t, 3), (SHOP, *o, 2), ("crm", *t, 9)], SHOP)
    assert held == [Stay(t, BEGINNING), Stay(o, (1, 5), 2, 2), Stay(t, (1, 9), 3, 3)]
    stored = [one.entry(SHOP) for one in held]
    assert known_stays(names, stored, SHOP) == held
    assert known_stays((), stored, SHOP) == held
    # One more since.
    assert known_stays([*names, (o, (2, 1))], stored, SHOP) == [*held, Stay(o, (2, 1))]
