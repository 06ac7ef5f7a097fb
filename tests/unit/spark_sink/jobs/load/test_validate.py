"""A validation of tables that cannot be compared, by the command's function: a line of each, then the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink.errors import (
    ComparisonIncomplete,
    KeyChanged,
    LoadStale,
    SourceUnreachable,
    UnsupportedType,
    WarehouseUnusable,
)
from spark_sink.jobs.load import command
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import unreadable
from spark_sink.settings.model import Settings
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.ledger import Entry
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits
from tests.harness.memory_warehouse import MemoryWarehouse, memory_log
from tests.unit.spark_sink.jobs.load.test_plan import PLAN, TABLE, written

SHAPE = Shape("trade", "x", (("id", "int"), ("v", "int")), ("id",))
OF_SOURCE: dict[str, Exception] = {
    "altered": LoadStale("column v of trade_07.altered is gone at the source"),
    "denied": unreadable(1142, "SELECT command denied", ("trade_07", "denied")),
    "dropped": unreadable(1146, "Table 'trade_07.dropped' doesn't exist", ("trade_07", "dropped")),
    "lost": SourceUnreachable("db:3306: Socket error"),
}
REASONS = {
    "altered": "NotComparable: A table cannot be compared with its source: column v of trade_07.alt",
    "denied": "(error 1142). Run GRANT SELECT ON `trade_07`.`denied` TO the account of load.user",
    "dropped": "(error 1146). It was dropped, renamed or altered: make a new plan",
    "keyless": "trade.keyless has no key by which rows could be compared",
    "merged": "as a merge publishes its changes. Let the worker read the existing rows",
    "missing": "the warehouse has no table trade.missing. The sink makes it with its first change",
    "typed": "UnsupportedType: A column has a MySQL type for which the sink has no warehouse type",
    "waits": "trade.waits waits: KeyChanged: its key was id. Run: python -m spark_sink reload",
}


class Sources:
    """A loader whose sources answer as a table's name says."""

    def __init__(self, warehouse: MemoryWarehouse) -> None:
        self.warehouse = warehouse
        self.loads = SimpleNamespace(root="/wh", make=lambda: None)

    def traced(self, name: Name, _sources: tuple[SourceTable, ...]) -> Any:
        if name[1] == "typed":
            raise UnsupportedType("g is a geography")
        return SimpleNamespace(wanted=SHAPE)

    def begun(self, name: Name, _sources: tuple[SourceTable, ...], *, only: object) -> Any:
        assert only == []
        raise OF_SOURCE[name[1]]


@pytest.fixture
def warehouse() -> MemoryWarehouse:
    made = MemoryWarehouse()
    for table in (*OF_SOURCE, "keyless", "typed", "waits"):
        key = () if table == "keyless" else ("id",)
        made.tables.evolve(None, replace(SHAPE, table=table, key=key))
    batch = Entry(
        query_id="q",
        batch_id=1,
        topic="aq.trade",
        partition=0,
        from_offset=0,
        until_offset=9,
        records=9,
        applied_at_ms=5,
    )
    made.log.append([batch])
    offsets: Offsets = {("aq.trade", 0): 9}
    waiting = KeyChanged("its key was id", advice="Run: python -m spark_sink reload trade.waits")
    Waits(made.log, lambda: 1).begin(("trade", "waits"), waiting, offsets)
    return made


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    there = (*OF_SOURCE, "keyless", "missing", "typed", "waits")
    why = "trade.merged cannot be read by the sink, as a merge publishes its changes"
    advice = "Let the worker read the existing rows: see docs/snapshots.md."
    refused = [{"logical": ["trade", "merged"], "why": f"{why}. {advice}"}]
    tables = [{**TABLE, "table": one, "logical": ["trade", one]} for one in there]
    return written(tmp_path, {**PLAN, "form": 2, "tables": tables, "refused": refused})


@pytest.fixture(autouse=True)
def _without_servers(monkeypatch: pytest.MonkeyPatch, warehouse: MemoryWarehouse) -> None:
    @contextmanager
    def sources(*_: object, lock_seconds: int, **__: object) -> Iterator[Any]:
        assert lock_seconds == 60
        yield Sources(warehouse)

    monkeypatch.setattr(command, "loader", sources)


def validated(
    warehouse: Any, plan: Path, *tables: str, as_json: bool = False
) -> tuple[list[str], Exception | None]:
    """The lines of the command, and the error at its end."""
    spark: Any = None
    settings = Settings(prefix="aq", bootstrap_servers="x:1", warehouse="/wh")
    lines: list[str] = []
    names = [("trade", one) for one in tables]
    given = command.validate(
        spark,
        settings,
        warehouse,
        [plan],
        names,
        most=20,
        as_json=as_json,
        timeout=1,
        stop=threading.Event(),
    )
    try:
        lines.extend(given)
    except Exception as error:
        return lines, error
    return lines, None


def test_each_table_that_cannot_be_compared_is_a_line_and_the_next_one_follows(
    warehouse: MemoryWarehouse, plan: Path
) -> None:
    lines, error = validated(warehouse, plan, *REASONS)
    assert isinstance(error, ComparisonIncomplete)
    assert "8 of 8 tables not compared" in str(error)
    *lines, last = lines
    assert last == "validation of shop: tables=8 not_compared=8 rows=0 differences=0"
    assert len(lines) == len(REASONS)
    for line, (table, part) in zip(lines, REASONS.items(), strict=True):
        assert line.startswith(f"trade.{table}: not compared: "), line
        assert part in line


def test_the_same_as_json(warehouse: MemoryWarehouse, plan: Path) -> None:
    lines, error = validated(warehouse, plan, *REASONS, as_json=True)
    assert isinstance(error, ComparisonIncomplete)
    body = json.loads("\n".join(lines))
    assert (body["destinations"], body["equal"], body["complete"]) == (["shop"], False, False)
    found = {one["table"]: one["not_compared"] for one in body["tables"]}
    assert list(found) == [f"trade.{one}" for one in REASONS]
    assert all(REASONS[one.removeprefix("trade.")] in why for one, why in found.items())


def test_a_lost_source_ends_it_after_the_tables_before(
    warehouse: MemoryWarehouse, plan: Path
) -> None:
    lines, error = validated(warehouse, plan)
    assert isinstance(error, SourceUnreachable)
    # In the order of their names.
    assert [line.partition(":")[0] for line in lines] == [
        "trade.altered",
        "trade.denied",
        "trade.dropped",
        "trade.keyless",
    ]
    assert validated(warehouse, plan, "denied", "lost", as_json=True)[0] == []


def test_a_warehouse_without_a_sinks_ledger_is_one_error(
    warehouse: MemoryWarehouse, plan: Path
) -> None:
    warehouse.log = memory_log()
    lines, error = validated(warehouse, plan)
    assert lines == []
    assert isinstance(error, WarehouseUnusable)
    assert "/wh: no sink has applied a change there" in str(error)
