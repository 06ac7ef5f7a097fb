"""Random statements among rows, and what the moves make of rows that are dicts: the rows of the source."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_sink.source.schemas import Column, Constant, SchemaBook
from spark_sink.warehouse.columns import Asked, Move, traced
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.batch.test_new_columns import Source, random_source
from tests.unit.spark_sink.history import Change
from wire.table_version import VersionKey

NAME = ("shop", "t")
Row = dict[str, Any]


class Table:
    """A warehouse table of one source, as the sink's expressions would make it."""

    def __init__(self, source: Source) -> None:
        self.book = SchemaBook(lambda: source.schemas)
        self.held: Shape | None = None
        self.rows: dict[Any, Row] = {}

    def take(self, batch: list[Change]) -> None:
        keys = [VersionKey("shop", *NAME, change.version or 0) for change in batch]
        versions = list(self.book.versions(keys).values())
        asked = Asked(
            newest=lambda _: max((row["version"] for row in self.rows.values()), default=-1),
            is_only=lambda _: True,
        )
        found = traced(self.book, self.held, versions, asked, name=NAME)
        wanted = found.wanted
        if found.held is not None:
            self.rows = {
                key: brought(row, found.held, wanted, found.moves) for key, row in self.rows.items()
            }
        self.held = wanted
        present = {one.key.version: dict(one.present) for one in found.versions}
        for change in batch:
            row = made(change, wanted, present[change.version or 0])
            key = row[wanted.key[0]]
            if key not in self.rows or self.rows[key]["seq"] < change.seq:
                self.rows[key] = row

    def current(self) -> list[Row]:
        return [row for row in self.rows.values() if not row["deleted"]]


def brought(row: Row, held: Shape, wanted: Shape, moves: list[Move]) -> Row:
    """A row of the held shape in the columns that are wanted."""
    there = {name.lower(): row[name] for name, _ in held.columns}
    found: Row = {name: row[name] for name in ("version", "seq", "deleted")}
    by_name = {move.column.lower(): move for move in moves}
    for name, _ in wanted.columns:
        move = by_name.get(name.lower())
        if move is None:
            found[name] = there.get(name.lower())
        elif move.taken_from is not None:
            found[name] = there[move.taken_from.lower()]
        else:
            is_filled = row["version"] <= move.until and not row["deleted"]
            found[name] = value(move.constant) if is_filled else None
    return found


def made(change: Change, shape: Shape, present: dict[str, Column | Constant]) -> Row:
    """The row of a change."""
    image = change.after or change.before or {}
    row: Row = {"version": change.version, "seq": change.seq, "deleted": change.op == "d"}
    own = {shape.spelling(name): one for name, one in present.items()}
    for name, _ in shape.columns:
        one = own.get(name)
        found = image[one.name] if isinstance(one, Column) else value(one)
        row[name] = None if row["deleted"] and name not in shape.key else found
    return row


def value(constant: Constant | None) -> int | None:
    return None if constant is None or constant.text is None else int(constant.text)


@pytest.mark.parametrize("seed", range(40))
def test_rows_in_any_order_end_as_the_source_has_them(seed: int) -> None:
    rng = random.Random(seed)
    source = random_source(rng, 80)
    mixed = sorted(source.changes, key=lambda one: one.seq + rng.randrange(30))
    table = Table(source)
    for at in range(0, len(mixed), 15):
        table.take(mixed[at : at + 15])
    assert source.present(table.current()) == source.rows
    table.take(rng.sample(mixed, 20))
    assert source.present(table.current()) == source.rows
