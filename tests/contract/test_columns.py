"""What every warehouse does alike with the columns of its tables, now and as of earlier versions."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from spark_sink.errors import UnknownTable
from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.protocol import VersionGone
from spark_sink.warehouse.shape import Shape
from tests.contract.warehouses import (
    KEYED,
    NAME,
    Case,
    Row,
    case,
    row,
)
from tests.unit.spark_sink.conftest import spark

__all__ = ["case", "spark"]
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_a_table_is_there_once_it_was_made_and_widened_by_what_is_wanted(case: Case) -> None:
    tables = case.warehouse.tables
    assert tables.shape(*NAME) is None
    assert tables.names() == []
    with pytest.raises(UnknownTable, match=r"shop\.t"):
        tables.current(*NAME)
    case.merge(KEYED, row(1, 10, 1))
    wider = Shape("shop", "t", (*KEYED.columns, ("w", "string")), ("id",))
    tables.evolve(KEYED, wider)
    assert (tables.names(), tables.shape(*NAME)) == ([NAME], wider)
    assert [one["w"] for one in case.described(tables.rows(wider))] == [None]


def test_a_table_keeps_up_to_which_versions_its_columns_are_brought(case: Case) -> None:
    tables = case.warehouse.tables
    case.merge(KEYED, row(1, 10, 1))
    followed = replace(KEYED, followed=(("crm", "shop", "it's", 1), ("shop", "shop", "t", 2)))
    tables.evolve(KEYED, followed)
    assert tables.shape(*NAME) == followed
    renamed = Shape("shop", "t", (("number", "int"), ("v", "string")), ("number",))
    renamed = replace(renamed, followed=(("shop", "shop", "t", 3),))
    number = {**row(1, None, 1), "number": 1, "v": "x"}
    del number["id"]
    tables.replace(renamed, case.rows(renamed, number))
    assert tables.shape(*NAME) == renamed
    facts = case.warehouse.facts.of(NAME)
    assert facts is not None
    assert facts.shape == renamed


def test_columns_are_renamed_with_the_key_and_keep_their_values(case: Case) -> None:
    tables = case.warehouse.tables
    commented = replace(KEYED, comments=(("v", "a value"),))
    case.merge(commented, row(1, 10, 1), row(2, 20, 2, __deleted=True))
    names = {"id": "number", "v": "w"}
    before = case.warehouse.upkeep.version(NAME)
    renamed = tables.rename_columns(commented, names)
    assert renamed.columns == (("number", "int"), ("w", "int"))
    assert renamed.key == ("number",)
    for _ in range(2):
        assert tables.shape(*NAME) == renamed
        assert [list(one.values()) for one in plain(case, tables.current(*NAME))] == [[1, 10]]
        # An interrupted call is repeated.
        assert tables.rename_columns(renamed, names) == renamed
    # As it was before, it has the names of then.
    shape, rows = tables.as_of(*NAME, before)
    assert (shape.columns, shape.key) == (KEYED.columns, KEYED.key)
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 10), (2, 20)]
    later = {**row(1, None, 3), "number": 1, "w": 11}
    del later["id"], later["v"]
    tables.merge(renamed, case.rows(renamed, later))
    wider = replace(renamed, columns=(*renamed.columns, ("v", "int")))
    tables.evolve(renamed, wider)
    assert [list(one.values()) for one in plain(case, tables.current(*NAME))] == [[1, 11, None]]


def plain(case: Case, rows: Any) -> list[Row]:
    """Rows of any columns."""
    return [
        dict(row) for row in (rows if case.spark is None else [r.asDict() for r in rows.collect()])
    ]


def test_comments_of_a_table_and_its_columns_are_set_and_changed(case: Case) -> None:
    tables = case.warehouse.tables
    commented = replace(KEYED, comments=(("", "it's the \\ table"), ("v", "a\nvalue")))
    case.merge(commented, row(1, 10, 1))
    assert tables.shape(*NAME) == commented
    changed = replace(KEYED, comments=(("id", "the key"), ("v", "another")))
    tables.evolve(commented, changed)
    assert tables.shape(*NAME) == changed
    tables.replace(changed, tables.rows(changed))
    facts = case.warehouse.facts.of(NAME)
    assert facts is not None
    assert (tables.shape(*NAME), facts.shape) == (changed, changed)
    tables.evolve(changed, KEYED)
    assert tables.shape(*NAME) == KEYED
    assert case.current() == [(1, 10)]


def test_types_are_widened_and_keep_their_values_and_a_reload(case: Case) -> None:
    tables = case.warehouse.tables
    narrow = [("a", "int"), ("b", "int"), ("c", "float"), ("d", "decimal(10,2)"), ("e", "date")]
    wide = ["bigint", "decimal(20,0)", "double", "decimal(14,4)", "timestamp_ntz"]
    values = {"a": 1, "b": 2, "c": 0.5, "d": Decimal("3.25"), "e": date(2026, 1, 2)}
    held = Shape("shop", "t", (*KEYED.columns, *narrow), ("id",))
    written = {name: str(value) if name in "de" else value for name, value in values.items()}
    given: dict[str, Any] = values if case.spark is None else written
    rows = case.rows(held, row(1, 10, 1, **given))
    tables.replace(held, rows, cut=(7, {}))
    at = case.warehouse.upkeep.version(NAME)
    columns = zip((name for name, _ in narrow), wide, strict=True)
    wanted = Shape("shop", "t", (*KEYED.columns, *columns, ("f", "int")), ("id",))
    tables.evolve(held, wanted)
    assert (tables.shape(*NAME), tables.cut(*NAME)) == (wanted, (7, {}))
    assert case.warehouse.upkeep.version(NAME) >= at
    tables.evolve(tables.shape(*NAME), wanted)
    (found,) = case.described(tables.rows(wanted, fixed=True))
    if case.spark is not None:
        values |= {"e": datetime(2026, 1, 2), "d": Decimal("3.2500")}  # noqa: DTZ001 - as Spark gives it
    assert {name: found[name] for name in (*values, "f")} == {**values, "f": None}


def test_fixed_rows_have_the_columns_of_their_table_and_stay(case: Case) -> None:
    tables = case.warehouse.tables
    tables.evolve(None, KEYED)
    empty = tables.rows(KEYED, fixed=True)
    case.merge(KEYED, row(1, 10, 1))
    wider = Shape("shop", "t", (*KEYED.columns, ("w", "string")), ("id",))
    tables.evolve(KEYED, wider)
    held = tables.rows(wider, fixed=True)
    case.merge(wider, row(1, 11, 2, w="x"), row(2, 20, 3, w="y"))
    assert case.described(empty) == []
    assert [(one["v"], one["w"]) for one in case.described(held)] == [(10, None)]


def test_a_table_is_read_as_of_a_version_with_the_shape_it_had(case: Case) -> None:
    tables, upkeep = case.warehouse.tables, case.warehouse.upkeep
    case.merge(KEYED, row(1, 10, 1))
    first = upkeep.version(NAME)
    case.merge(KEYED, row(1, 11, 2), row(2, 20, 3, source=None))
    assert tables.newest(KEYED) == {"shop": Position(1, 3, 3)}
    wider = replace(KEYED, columns=(*KEYED.columns, ("w", "int")))
    tables.evolve(KEYED, wider)
    shape, rows = tables.as_of(*NAME, first)
    assert shape == KEYED
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 10)]
    shape, rows = tables.as_of(*NAME, upkeep.version(NAME))
    assert shape.columns == wider.columns
    assert [(one["id"], one["v"]) for one in case.described(rows)] == [(1, 11), (2, 20)]
    with pytest.raises(VersionGone):
        tables.as_of(*NAME, upkeep.version(NAME) + 1)
    with pytest.raises(VersionGone):
        tables.as_of("shop", "nothing", 0)


def test_a_version_keeps_the_key_that_the_table_had(case: Case) -> None:
    tables, upkeep = case.warehouse.tables, case.warehouse.upkeep
    case.merge(KEYED, row(1, 10, 1))
    first = upkeep.version(NAME)
    for number, key in enumerate((("id", "v"), ("v",)), start=2):
        other = replace(KEYED, key=key)
        tables.replace(other, case.rows(other, row(number, 20, number)))
        assert tables.as_of(*NAME, upkeep.version(NAME))[0].key == key
    second = upkeep.version(NAME) - 1
    case.merge(other, row(3, 30, 9))
    assert tables.as_of(*NAME, second)[0].key == ("id", "v")
    shape, rows = tables.as_of(*NAME, first)
    assert (shape.key, [one["id"] for one in case.described(rows)]) == (("id",), [1])
