"""The tables that earlier versions of the sink have in place of its log, read as records of the log.

Invariant: these tables are removed only once the log has everything that they had. If a sink of an earlier
version runs again, it makes new tables, which are taken over as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Protocol

from spark_sink.text.quoting import DDL, FLOORS, LEDGER, WAITS
from spark_sink.warehouse.log_fold import Record

_Rows = Iterable[Mapping[str, Any]]


class EarlierTables(Protocol):
    """The tables that earlier versions have for the sink's own records, in their format."""

    def version(self, name: str) -> str:
        """A text that changes with each commit of a table; empty if there is no table."""

    def rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a table."""

    def remove(self, name: str) -> None:
        """Remove a table."""


def versions(tables: EarlierTables) -> dict[str, str]:
    """The tables that exist, with their versions."""
    found = {name: tables.version(name) for name in _RECORDS}
    return {name: version for name, version in found.items() if version}


def records(tables: EarlierTables, names: Iterable[str]) -> list[Record]:
    """The contents of these tables, as records of the log."""
    return [record for name in names for record in _RECORDS[name](tables.rows(name))]


def _of_ledger(rows: _Rows) -> Iterator[Record]:
    batches: dict[tuple[int, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        at = row["applied_at_ms"], row["query_id"], row["batch_id"]
        batches.setdefault(at, []).append(row)
    for at, own in sorted(batches.items(), key=itemgetter(0)):
        body = {"kind": "batch", "at_ms": at[0], "query_id": at[1], "batch_id": at[2], "again": {}}
        own.sort(key=itemgetter("topic", "partition", "from_offset"))
        columns = "topic", "partition", "from_offset", "until_offset", "records"
        # The first versions had no milestones.
        stated = [text for row in own if (text := row.get("milestone"))]
        parts = [[row[name] for name in columns] for row in own]
        yield {**body, "milestone": stated[0] if stated else None, "parts": parts}
        topic, partition, _, until, _ = parts[0]
        for text in stated[1:]:
            # Maintenance has replaced versions in the batch's milestone.
            yield {**body, "milestone": text, "parts": [[topic, partition, until, until, 0]]}


def _of_floors(rows: _Rows) -> Iterator[Record]:
    floors = []
    for row in rows:
        own = {name: row[name] for name in ("database", "table", "epoch", "seq", "ts_ms")}
        # Without mapped tables, the source's name is that of the table.
        source = {
            "destination": row["destination"],
            "database": row.get("source_database") or row["database"],
            "table": row.get("source_table") or row["table"],
        }
        floors.append({**own, "source": source})
    yield {"kind": "floors", "floors": floors}


def _of_ddl(rows: _Rows) -> Iterator[Record]:
    events, read, done = [], [], dict[str, tuple[int, int]]()
    for row in rows:
        at = row["epoch"], row["seq"]
        if row["kind"] == "event":
            events.append([row["destination"], *at, row["ts_ms"], row["body"]])
        elif row["kind"] == "read":
            read.append([row["topic"], row["partition"], 0, row["until_offset"]])
        else:
            done[row["destination"]] = max(at, done.get(row["destination"], at))
    yield {"kind": "ddl", "events": events, "read": read}
    yield {"kind": "done", "places": done}


def _of_waits(rows: _Rows) -> Iterator[Record]:
    for row in rows:
        yield {"kind": "wait", "row": dict(row)}


_RECORDS: Final[Mapping[str, Callable[[_Rows], Iterator[Record]]]] = {
    LEDGER: _of_ledger,
    FLOORS: _of_floors,
    DDL: _of_ddl,
    WAITS: _of_waits,
}
