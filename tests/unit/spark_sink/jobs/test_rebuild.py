"""Which statements a reload follows that have no row after them, and what it never drops for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink.batch.contents import TablePart
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.errors import KeyChanged
from spark_sink.jobs.rebuild import Rebuild
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.moves import Event, Name
from spark_sink.warehouse.shape import Entry, Shape
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic
from tests.unit.spark_sink.history import schema
from wire.table_version import VersionKey

NAME = ("shop", "t")
Place = tuple[int, int]


def altered(seq: int, version: int, table: str = "t", moves: Mapping[Name, Name] = {}) -> Event:
    """A statement that gave a table a version, and perhaps renamed tables."""
    own = ((("shop", table), version),)
    return Event(destination="shop", epoch=1, seq=seq, ts_ms=0, altered=own, moves=moves)


class Stage:
    """A stage with a table whose newest row of each source is at a position."""

    def __init__(self, shape: Shape | None, *, is_empty: bool = False) -> None:
        self.held, self.is_empty = shape, is_empty

    def shape(self, *_: str) -> Shape | None:
        return self.held

    def rows(self, _: Shape) -> Any:
        return SimpleNamespace(limit=lambda _: None, isEmpty=lambda: self.is_empty)

    def drop(self, *_: str) -> None:
        self.held = None


class Rebuilt(Rebuild):
    """A rebuild that only takes down what it would fold."""

    newest: Mapping[tuple[str, ...], Place]
    folded: list[str]

    def _newest(self, _: Shape) -> dict[tuple[str, ...], Place]:
        return dict(self.newest)

    def _fold(self, _: object, part: TablePart, *__: object, shape: Shape | None) -> None:
        assert shape == self.stage.shape(*NAME)
        self.folded += [f"{key.table}{key.version}" for key in sorted(part.versions)]


def rebuilt(
    *events: Event,
    newest: Mapping[tuple[str, ...], Place],
    followed: Sequence[Entry] = (),
    apart: bool = False,
    only_new: bool = False,
    is_empty: bool = False,
) -> Rebuilt:
    """A rebuild whose table has rows, after these statements."""
    kept: Any = MemoryWarehouse()
    waits = Waits(kept.log, lambda: 0.0)
    ddl = Ddl(topics=Topic(), warehouse=kept, waits=waits, on_drop="rename", on_rename="move")
    ddl.history.add(events)
    logical = {"logical": list(NAME)} if apart else {}
    values = [
        json.dumps(json.loads(schema(("id", "int"), table=table, version=version)) | logical)
        for event in events
        for (_, table), version in event.altered
    ]
    shape = Shape(*NAME, (("id", "int"),), ("id",), apart=apart, followed=tuple(followed))
    applier: Any = SimpleNamespace(ddl=ddl, book=SchemaBook(lambda: values))
    stage: Any = Stage(shape, is_empty=is_empty)
    request = Request(number="1", database="shop", table="t", only_new=only_new)
    found = Rebuilt(name=NAME, request=request, applier=applier, stage=stage)
    found.newest, found.folded = newest, []
    return found


def test_only_statements_after_the_newest_row_are_followed_and_each_once() -> None:
    one = rebuilt(altered(10, 2), altered(20, 3), altered(30, 4), newest={("shop",): (1, 25)})
    one.alter()
    assert one.folded == ["t4"]
    # The conversion may have removed the newest rows, which were markers.
    one.newest = {}
    one.alter()
    assert one.folded == ["t4"]


def test_statements_before_records_that_left_no_row_are_not_followed() -> None:
    one = rebuilt(altered(10, 2), altered(20, 3), altered(30, 4), newest={})
    one.reached[VersionKey("shop", "shop", "t", 3)] = (1, 25)
    one.alter()
    assert one.folded == ["t4"]


def test_all_statements_are_followed_by_rows_from_before_them() -> None:
    one = rebuilt(altered(10, 2), altered(20, 3), newest={("shop",): (1, 5)})
    one.alter()
    assert one.folded == ["t2", "t3"]


def test_statements_that_the_rows_have_followed_without_a_row_after_them_are_not_followed_again() -> (
    None
):
    events = altered(10, 2), altered(20, 3), altered(30, 4)
    one = rebuilt(*events, newest={("shop",): (1, 5)}, followed=[("shop", "shop", "t", 3)])
    one.alter()
    assert one.folded == ["t4"]


def test_versions_of_a_name_that_the_table_had_more_than_once_are_of_their_own_time() -> None:
    to_u = altered(10, 1, "u", {NAME: ("shop", "u")})
    to_t = altered(30, 2, "t", {("shop", "u"): NAME})
    followed = [
        ("shop", "shop", "t", 2, 1, -1, -1),
        ("shop", "shop", "u", 1, 1, 1, 10),
    ]
    one = rebuilt(
        altered(4, 2),
        to_u,
        altered(20, 2, "u"),
        to_t,
        newest={("shop",): (1, 3)},
        followed=followed,
    )
    one.alter()
    assert one.folded == ["t2", "u2"]


def test_each_source_table_of_a_mapped_table_has_statements_of_its_own() -> None:
    one = rebuilt(
        altered(10, 2, "a"),
        altered(20, 2, "b"),
        altered(30, 3, "a"),
        newest={("shop", "shop", "a"): (1, 25), ("shop", "shop", "b"): (1, 15)},
        apart=True,
    )
    one.alter()
    assert one.folded == ["a3", "b2"]


def test_rows_are_dropped_for_rows_of_a_later_version_alone() -> None:
    held = Shape(*NAME, (("id", "int"),), ("id",))
    found = Traced(name=NAME, apart=False, versions=[], held=held, followed=())
    key = VersionKey("shop", "shop", "t", 2)
    leads: Any = [SimpleNamespace(key=key, places=((1, 10), (1, 10)))]
    records, statement = TablePart(NAME), TablePart(NAME)
    records.ops["c"] = 1
    later = rebuilt(newest={("shop",): (1, 25)}, only_new=True)
    with pytest.raises(KeyChanged, match="--from-beginning"):
        later._converted(held, leads, found, records)
    earlier = rebuilt(newest={("shop",): (1, 5)}, only_new=True)
    with pytest.raises(AttributeError, match="selectExpr"):
        # It converts the rows.
        earlier._converted(held, leads, found, statement)
    for one in (later, earlier):
        assert one.stage.shape(*NAME) == held
    assert earlier._converted(held, leads, found, records) is None
    empty = rebuilt(newest={}, only_new=True, is_empty=True)
    assert empty._converted(held, leads, found, statement) is None
    for one in (earlier, empty):
        assert one.stage.shape(*NAME) is None
