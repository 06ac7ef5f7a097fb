"""The status of each table: whether it is applied or waits, the reason, and the action to take.

Invariant: read-only; it reads only the warehouse, so it works while Kafka is unavailable and beside a running
sink.

Also the list of all tables with their state, size and age: one line each, or JSON. Invariant: read-only; it
reads the warehouse's logs, and rows only to count them. A table that cannot be read is listed with the reason,
and all other tables are listed too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_sink.errors import SinkError
from spark_sink.spark.error_mapping import named, place
from spark_sink.text.quoting import (
    FOREIGN,
    OR_DISCARD,
    PASSED_BY,
    UNMAINTAINED,
    argument,
    of_sink,
)
from spark_sink.warehouse.foreign_topics import refused_topics
from spark_sink.warehouse.integrity import foreign_lines
from spark_sink.warehouse.maintenance_schedule import faults_of
from spark_sink.warehouse.passed_by import passed_by_lines
from spark_sink.warehouse.protocol import HOUR_MS, Letter, Name, Warehouse
from spark_sink.warehouse.unknown_values import column_lines
from spark_sink.warehouse.waiting_tables import RELOADING, WAITING, Request, Waits, WaitState
from wire.text import utc_seconds

_STATES = {WAITING: "WAITING", RELOADING: "RELOADING"}


def status_lines(warehouse: Warehouse[Any], sink: str = "") -> Iterator[str]:
    """The lines of the status: a summary, topics, and each table, with more lines if it waits."""
    waits = Waits(warehouse.log, time.time)
    waits.refresh()
    last, reached = warehouse.log.last(), warehouse.log.applied()
    asked = {request.name: request for request in waits.requests}
    there = set(warehouse.tables.names())
    notes = warehouse.log.ddl().notes(warehouse.log.floors())
    # A table that has waited, and was removed since, is not listed.
    waited = (name for name, held in waits.tables.items() if held.waits or held.error)
    names = sorted({*there, *waited, *asked})
    text = "never"
    if last is not None:
        text = f"{utc_seconds(last.applied_at_ms)}, number {last.batch_id}, {last.records} records"
    yield f"last batch applied: {text}"
    yield f"tables: {len(names)}; waiting: {sum(waits.waiting(name) is not None for name in names)}"
    yield from _reloads(waits.tables[name] for name in sorted(waits.tables.keys() - asked.keys()))
    hour = warehouse.letters.since(int(time.time() * 1000) - HOUR_MS)
    if hour:
        yield f"dead letters in the last hour: {hour}; to list them: python -m spark_sink letters"
    for topic, text in refused_topics(warehouse.notes, of_sink(FOREIGN, sink)).items():
        yield f"topic {topic}: REFUSED"
        yield f"  reason: {text}"
    yield from passed_by_lines(warehouse.notes, of_sink(PASSED_BY, sink))
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


_THREADS: Final = 4
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")

Listed = dict[str, Any]
"""A table as JSON has it; docs/sink/metrics.md lists the members."""


def listed_tables(warehouse: Warehouse[Any], *, count: bool = False) -> list[Listed]:
    """All tables by name, those that wait before their first row included; `count` counts rows."""
    waits = Waits(warehouse.log, time.time)
    waits.refresh()
    names = sorted(
        {*warehouse.tables.names(), *(n for n, one in waits.tables.items() if one.waits)}
    )

    def listed(name: Name) -> Listed:
        held = waits.waiting(name)
        found: Listed = {"database": name[0], "table": name[1], "state": "ok"}
        if held is not None:
            found |= {"state": held.kind, "error": held.error, "since_ms": held.since_ms}
        try:
            return found | _facts(warehouse, name, count=count)
        except (SinkError, PySparkException, Py4JError, OSError, ValueError, KeyError) as failure:
            fault = named(failure)
            return found | {
                "state": "unreadable",
                "error": type(fault).__name__,
                "reason": fault.where,
            }

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(listed, names))


def table_lines(tables: Iterable[Listed]) -> Iterator[str]:
    """The tables as lines."""
    for table in tables:
        yield " ".join([f"{table['database']}.{table['table']}:", *_words(table)])


def _facts(warehouse: Warehouse[Any], name: Name, *, count: bool) -> Listed:
    facts = warehouse.facts.of(name)
    if facts is None:
        return {}
    last = facts.last_merge
    found: Listed = {
        "key": list(facts.shape.key),
        "columns": len(facts.shape.columns),
        "rows": facts.rows,
        "files": facts.files,
        "bytes": facts.bytes,
        "newest_commit_ms": facts.newest_ms,
        "written_ms": facts.written_ms or None,
        "last_batch_ms": last.at_ms if last is not None else None,
        "destinations": list(facts.destinations),
    }
    if count:
        counted = warehouse.facts.count(name)
        found |= {
            "rows": counted.live + counted.deleted,
            "live": counted.live,
            "deleted": counted.deleted,
            "newest_commit_ms": counted.newest_ms,
            "destinations": list(counted.destinations),
        }
    return found


def _words(table: Listed) -> Iterator[str]:
    state = table["state"]
    yield state if state == "ok" else f"{state} ({table['error']})"
    if state == "unreadable":
        yield table["reason"]
    if "key" not in table:
        return
    yield f"key={','.join(table['key']) or 'none'}"
    yield f"columns={table['columns']}"
    rows = "unknown" if table["rows"] is None else table["rows"]
    if "live" in table:
        yield f"rows={table['live']} deleted={table['deleted']}"
    else:
        yield f"rows={rows}"
    yield f"files={table['files']}"
    yield f"size={_size(table['bytes'])}"
    for word, member in (("newest", "newest_commit_ms"), ("last_batch", "last_batch_ms")):
        yield f"{word}={'unknown' if table[member] is None else utc_seconds(table[member])}"
    yield f"sources={','.join(table['destinations']) or 'unknown'}"


def _size(number: int) -> str:
    value, unit = float(number), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f}{_UNITS[unit]}" if unit else f"{number}B"
