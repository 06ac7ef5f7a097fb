"""The output of commands: text for operators, JSON for programs, both with the same content.

Invariant: standard output has the answer only. Times are UTC. An item of text is one line, whatever
a name contains; JSON, and statements to be run, have names as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from connectors.errors import printed
from connectors.mysql.ddl.definition import Index, Table
from tables.history.differences import Difference, key_text
from tables.history.position import HistoryPosition
from tables.history.record import Given, SchemaRecord
from tables.state.quarantine import Entry

_JSON = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def print_answer(form: str, value: Any, lines: Iterable[str]) -> None:
    """Print an answer in the requested format."""
    if form == "json":
        text = orjson.dumps(value, option=_JSON).decode()
    else:
        text = "".join(f"{printed(line).rstrip()}\n" for line in lines)
    sys.stdout.write(text)


def aligned_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows below their headings; the last column has no fixed width."""
    table = [list(head), *([printed(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(head) - 1)]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in table]


def time_text(ts_ms: int) -> str:
    """Return a time of the source's clock as text."""
    moment = datetime.fromtimestamp(ts_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shortened(text: str, most: int = 120) -> str:
    """Return a statement shortened to a line of a list."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def position_value(position: HistoryPosition) -> dict[str, Any]:
    """Return a position as JSON."""
    return {
        "server_uuid": position.server_uuid,
        "file": position.start.file,
        "pos": position.start.pos,
        "gtid": position.gtid,
        "gtid_set": None if position.gtid_set is None else str(position.gtid_set),
        "time": time_text(position.ts_ms),
        "server_id": position.server_id,
        "thread": position.thread,
        "user": position.user,
    }


def position_text(position: HistoryPosition) -> str:
    """Return a position as text: coordinates and GTID."""
    return f"{position.start}  {position.gtid}" if position.gtid else str(position.start)


def record_value(record: SchemaRecord) -> dict[str, Any]:
    """Return a step of the history as JSON."""
    return {
        "number": record.number,
        "kind": record.kind,
        "type": record.type,
        "outcome": record.outcome,
        "reason": record.reason,
        "tables": [".".join(name) for name in record.concerned],
        "unchanged": [".".join(name) for name in record.unchanged],
        "databases": list(record.schemas),
        "default_database": record.use_schema,
        "sql_mode": sorted(record.session.sql_mode),
        "statement": record.statement,
        "given": given_value(record.given),
        **position_value(record.position),
    }


def given_value(given: Given | None) -> dict[str, Any] | None:
    """Return the author of a given definition as JSON."""
    if given is None:
        return None
    return {"by": given.by, "time": time_text(given.ts_ms), "source": given.source or None}


def quarantine_value(entry: Entry | None) -> dict[str, Any] | None:
    """Return a quarantined or given-up table's entry as JSON."""
    if entry is None:
        return None
    return {
        "state": "given up" if entry.is_given_up else "quarantined",
        "since": position_value(entry.since),
        "why": entry.why,
        "refused": entry.reason or None,
        "given_up": given_value(entry.given),
    }


def quarantine_lines(entry: Entry | None) -> list[str]:
    """Return a quarantined or given-up table's entry as text; nothing for another table."""
    if entry is None:
        return []
    since = f"{time_text(entry.since.ts_ms)}  {position_text(entry.since)}"
    fate = (
        "quarantined: its rows wait" if entry.is_quarantined else "given up: its rows are dropped"
    )
    lines = [f"{fate}; it was read up to {since}", f"because {entry.why}"]
    if entry.given is not None:
        lines.append(f"given up by {entry.given.by}, {time_text(entry.given.ts_ms)}")
    if entry.reason:
        lines.append(f"the last resolution was refused: {entry.reason}")
    return lines


def difference_value(difference: Difference) -> dict[str, Any]:
    """Return a difference as JSON."""
    return {
        "what": difference.what,
        "name": difference.name,
        "old": difference.old,
        "new": difference.new,
    }


def table_value(table: Table) -> dict[str, Any]:
    """Return a definition as JSON."""
    return {
        "columns": [
            {**column.to_json(), "definition": column.definition} for column in table.columns
        ],
        "primary_key": list(table.primary_key),
        "keys": [_key_value(index) for index in table.indexes if index.name != "PRIMARY"],
        "charset": table.charset,
        "collation": table.collation,
        "options": table.options,
    }


def _key_value(index: Index) -> dict[str, Any]:
    return {"name": index.name, "columns": list(index.columns), "unique": index.unique}


def table_lines(table: Table) -> list[str]:
    """Return a definition as text."""
    rows = [
        [
            column.name,
            column.type,
            "null" if column.nullable else "not null",
            column.collation or "",
            " ".join(filter(None, (column.definition, "INVISIBLE" if column.invisible else ""))),
        ]
        for column in table.columns
    ]
    lines = aligned_table(["column", "type", "null", "collation", "more"], rows)
    lines += [
        "",
        f"primary key  ({', '.join(table.primary_key)})" if table.primary_key else "no primary key",
    ]
    for index in table.indexes:
        if index.name != "PRIMARY":
            lines.append(f"key {index.name}  {key_text(index)}")
    lines.append(f"new columns take  {table.charset} {table.collation}")
    if table.options:
        lines.append(f"options  {table.options}")
    return lines
