"""A warehouse for the contract tests, in memory or in one of the formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.shape import Shape
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.conftest import FORMATS_LONG, spark

__all__ = ["spark"]
Row = dict[str, Any]
KEYED = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",))
APART = Shape("shop", "t", (("id", "int"), ("v", "int")), ("id",), apart=True)
LOG = Shape("shop", "t", (("id", "int"), ("v", "int")), ())
HISTORY = Shape("shop", "t", (("id", "int"), ("v", "int")), (), history=True)
OWN, OTHER = Source("shop", "shop", "t"), Source("shop", "shop", "t_1")
NAME = ("shop", "t")


@dataclass(frozen=True, slots=True)
class Case:
    """A warehouse, whatever form its rows have."""

    warehouse: Warehouse[Any]
    spark: Any = None

    def rows(self, shape: Shape, *rows: Row) -> Any:
        """Rows as this warehouse takes them."""
        if self.spark is None:
            return rows
        fields = ", ".join(f"`{name}`: {kind}" for name, kind in shape.all_columns)
        parsed = f.from_json(f.lit(json.dumps(rows)), f"array<struct<{fields}>>")
        return self.spark.range(1, numPartitions=1).select(f.inline(parsed))

    def described(self, rows: Any) -> list[Row]:
        """Rows as this warehouse gives them."""
        found = rows if self.spark is None else [row.asDict() for row in rows.collect()]
        return sorted((dict(row) for row in found), key=lambda row: (row["id"], row["v"] or 0))

    def merge(self, shape: Shape, *rows: Row) -> None:
        """Puts rows into the table, which is made with them where there is none."""
        held = self.warehouse.tables.shape(*NAME)
        if held is not None and held != shape:
            self.warehouse.tables.evolve(held, shape)
        self.warehouse.tables.merge(shape, self.rows(shape, *rows), is_new=held is None)

    def current(self) -> list[tuple[int, int]]:
        """The key and value of each row that readers see."""
        rows = self.described(self.warehouse.tables.current(*NAME))
        return [(row["id"], row["v"]) for row in rows]


@pytest.fixture(params=["memory", *FORMATS_LONG])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if request.param == "memory":
        yield Case(MemoryWarehouse())
        return
    session = request.getfixturevalue("spark")
    yield Case(open_warehouse(session, str(tmp_path), table_format=request.param), session)


def row(
    key: int, value: int | None, seq: int, *, source: Source | None = None, **other: Any
) -> Row:
    """A row of the table, of a source table where one is named."""
    named = {} if source is None else {"__source_database": source.database}
    named |= {} if source is None else {"__source_table": source.table}
    destination = "shop" if source is None else source.destination
    return {
        "id": key, "v": value, "__destination": destination, "__epoch": 1, "__seq": seq,
        "__deleted": False, "__schema": 1, "__ts_ms": seq, "__unrepresentable": None, **named, **other,
    }  # fmt: skip


def floor(seq: int, source: Source = OWN) -> Floor:
    return Floor(database="shop", table="t", source=source, epoch=1, seq=seq, ts_ms=seq)
