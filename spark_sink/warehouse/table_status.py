"""The status of each table: whether it is applied or waits, the reason, and the action to take.

Invariant: read-only; it reads only the warehouse, so it works while Kafka is unavailable and beside a running
sink.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.waiting_tables import RELOADING, WAITING, Request, Waits, WaitState

_STATES = {WAITING: "WAITING", RELOADING: "RELOADING"}


def status_lines(warehouse: Warehouse[Any]) -> Iterator[str]:
    """The lines of the status: one for each table, more for those that wait."""
    waits = Waits(warehouse.waits, time.time)
    waits.refresh()
    ledger = warehouse.ledger
    newest, reached = ledger.newest_ms(), ledger.applied()
    yield f"last batch applied: {_at(newest) if newest else 'never'}"
    asked = {request.name: request for request in waits.requests}
    notes, there = warehouse.ddl.history().notes(), set(warehouse.tables.names())
    for name in sorted({*there, *waits.tables, *asked}):
        yield from _table(name, waits.tables.get(name), asked.get(name), reached)
        yield from (f"  ddl: {text}" for text in notes.get(name, ()))


def shown(rows: DataFrame, limit: int) -> list[str]:
    """The lines of a table's first rows, as Spark formats them."""
    text: str = rows._show_string(limit, truncate=False)  # type: ignore[operator]
    return text.rstrip("\n").split("\n")


def _table(
    name: tuple[str, str],
    held: WaitState | None,
    asked: Request | None,
    reached: dict[tuple[str, int], int],
) -> Iterator[str]:
    state = _STATES.get(held.kind, "APPLIED") if held is not None else "APPLIED"
    yield f"{'.'.join(name)}: {state}"
    if held is not None and held.waits:
        yield f"  since: {_at(held.since_ms)}"
    if held is not None and held.error:
        yield f"  reason: {held.error}: {held.reason}"
        yield f"  action: {held.action}"
    if held is not None and held.waits:
        for (topic, partition), start in sorted(held.offsets.items()):
            until = reached.get((topic, partition), start)
            yield f"  changes: topic {topic}, partition {partition}, offsets {start} to {until}"
    if asked is not None:
        yield "  reload: requested, not started" if state != "RELOADING" else "  reload: running"


def _at(ms: int) -> str:
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
