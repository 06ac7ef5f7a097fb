"""The status of each table: whether it is applied or waits, the reason, and the action to take.

Invariant: read-only; it reads only the warehouse, so it works while Kafka is unavailable and beside a running
sink.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from spark_sink.spark.error_mapping import place
from spark_sink.text.names import FOREIGN, OR_DISCARD, UNMAINTAINED, argument, of_sink
from spark_sink.warehouse.column_notes import column_lines
from spark_sink.warehouse.foreign import foreign_lines
from spark_sink.warehouse.foreign_topics import refused_topics
from spark_sink.warehouse.ledger import LastBatch
from spark_sink.warehouse.letters import HOUR_MS, Letter
from spark_sink.warehouse.maintenance import faults_of
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.waiting_tables import RELOADING, WAITING, Request, Waits, WaitState
from wire.text import utc_seconds

_STATES = {WAITING: "WAITING", RELOADING: "RELOADING"}


def status_lines(warehouse: Warehouse[Any], sink: str = "") -> Iterator[str]:
    """The lines of the status: a summary, topics that are refused, and each table, more of those that wait."""
    waits = Waits(warehouse.waits, time.time)
    waits.refresh()
    ledger = warehouse.ledger
    last, reached = ledger.last(), ledger.applied()
    asked = {request.name: request for request in waits.requests}
    there = set(warehouse.tables.names())
    notes = warehouse.ddl.history().notes(warehouse.floors.highest())
    # Not a table that has waited, and was removed since.
    waited = (name for name, held in waits.tables.items() if held.waits or held.error)
    names = sorted({*there, *waited, *asked})
    yield f"last batch applied: {_batch(last) if last is not None else 'never'}"
    yield f"tables: {len(names)}; waiting: {sum(waits.waiting(name) is not None for name in names)}"
    yield from _reloads(waits.tables[name] for name in sorted(waits.tables.keys() - asked.keys()))
    hour = warehouse.letters.since(int(time.time() * 1000) - HOUR_MS)
    if hour:
        yield f"dead letters in the last hour: {hour}; to list them: python -m spark_sink letters"
    for topic, text in refused_topics(warehouse.notes, of_sink(FOREIGN, sink)).items():
        yield f"topic {topic}: REFUSED"
        yield f"  reason: {text}"
    columns: dict[Name, list[str]] = {}
    for name, text in column_lines(warehouse):
        columns.setdefault(name, []).append(text)
    foreign = dict(foreign_lines(warehouse))
    unmaintained = faults_of(warehouse, of_sink(UNMAINTAINED, sink))
    for name in names:
        yield from _table(name, waits.tables.get(name), asked.get(name), reached)
        yield from (f"  ddl: {text}" for text in notes.get(name, ()))
        yield from (f"  column: {text}" for text in columns.get(name, ()))
        if name in unmaintained:
            yield f"  maintenance: {unmaintained[name]}"
            yield f"  action: Run: python -m spark_sink maintain {argument(name)}"
        if name in foreign:
            yield f"  rows: {foreign[name]}"


def _reloads(states: Iterable[WaitState]) -> Iterator[str]:
    """One command for all waiting tables that the same reload brings back."""
    tables: dict[str, list[str]] = {}
    for held in states:
        own = argument((held.database, held.table))
        first = held.action.partition(OR_DISCARD)[0]
        command, _, options = first.partition(f" reload {own}")
        if held.kind == WAITING and command == "Run: python -m spark_sink" and ";" not in options:
            tables.setdefault(options, []).append(own)
    for options, names in sorted(tables.items()):
        if len(names) > 1:
            yield f"to reload {len(names)} of them: python -m spark_sink reload {' '.join(names)}{options}"


def letter_lines(warehouse: Warehouse[Any], most: int, name: Name | None = None) -> Iterator[str]:
    """A line for each of the newest dead letters, of one table if it is named."""
    found = warehouse.letters.newest(most, name)
    if not found:
        yield f"no dead letters of {'.'.join(name)}" if name else "no dead letters"
    yield from map(_letter, found)


def _letter(one: Letter) -> str:
    table = (
        "names no table"
        if one.database is None or one.table is None
        else f"{one.database}.{one.table}"
    )
    where = place(one.topic, one.partition, one.offset, f"{one.error}: {one.reason}")
    return f"{utc_seconds(one.at_ms)} {table}: {where}"


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
        yield f"  since: {utc_seconds(held.since_ms)}"
    if held is not None and held.error:
        yield f"  reason: {held.error}: {held.reason}"
        yield f"  action: {held.action}"
    if held is not None and held.waits:
        for (topic, partition), start in sorted(held.offsets.items()):
            until = reached.get((topic, partition), start)
            yield f"  changes: topic {topic}, partition {partition}, offsets {start} to {until}"
    if asked is not None:
        yield "  reload: requested, not started" if state != "RELOADING" else "  reload: running"


def _batch(last: LastBatch) -> str:
    return f"{utc_seconds(last.applied_at_ms)}, number {last.batch_id}, {last.records} records"
