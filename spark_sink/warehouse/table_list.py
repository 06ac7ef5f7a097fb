"""All tables of the warehouse with their state, size and age: one line each, or JSON.

Invariant: read-only; it reads the warehouse's logs and no rows, unless rows are to be counted. A table that
cannot be read is listed with the reason, and the others are listed too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_sink.errors import SinkError
from spark_sink.spark.error_mapping import named
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.waiting_tables import Waits
from wire.text import utc_seconds

_THREADS: Final = 4
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")

Listed = dict[str, Any]
"""A table as JSON has it; docs/sink/metrics.md lists the members."""


def listed_tables(warehouse: Warehouse[Any], *, count: bool = False) -> list[Listed]:
    """All tables by name, those that wait before their first row included; `count` counts rows."""
    waits = Waits(warehouse.waits, time.time)
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
