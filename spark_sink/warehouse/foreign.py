"""Rows that other programs have changed in the warehouse's tables, for `status`.

Invariant: a change is noted before the sink's next commit of the table, and the note stays until the table's
rows are read again from its topics or its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_sink.text.quoting import CHANGED_ELSEWHERE, argument
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import ForeignCommit, Name, Warehouse
from wire.text import utc_seconds
from wire.warehouse_folders import folder

_KEPT: Final = 20
_NONE: Final = '{"version":1,"commits":[]}'


def note_foreign(notes: Notes, name: Name, commits: Sequence[ForeignCommit]) -> None:
    """Note commits of other programs that changed rows of a table; only the last ones are kept."""
    found = {one[0]: one for one in _noted(notes, name)}
    found |= {one.version: [one.version, one.operation, one.at_ms] for one in commits}
    body = {"version": 1, "commits": [found[version] for version in sorted(found)][-_KEPT:]}
    notes.write(_path(name), json.dumps(body))


def forget_foreign(notes: Notes, name: Name) -> None:
    """Clear the note of a table whose rows are again those of its topics or its source."""
    if _noted(notes, name):
        notes.write(_path(name), _NONE)


def foreign_lines(warehouse: Warehouse[Any]) -> Iterator[tuple[Name, str]]:
    """A line for each table with such rows."""
    there = set(warehouse.notes.names(CHANGED_ELSEWHERE))
    for name in warehouse.tables.names() if there else ():
        if _file(name) in there and (found := _noted(warehouse.notes, name)):
            version, operation, at_ms = found[-1]
            more = f", and {len(found) - 1} more before" if len(found) > 1 else ""
            yield (
                name,
                f"{described(operation, version)} ({utc_seconds(at_ms)}{more}); {advice(name)}",
            )


def described(operation: str, version: int) -> str:
    """A commit of another program, in words."""
    return f"another program changed rows: {operation} made version {version}"


def advice(name: Name) -> str:
    """The advice for restoring the source's rows."""
    own = argument(name)
    return (
        f"to have the source's rows again, run: python -m spark_sink reload {own} --from-beginning"
    )


def _noted(notes: Notes, name: Name) -> list[list[Any]]:
    try:
        found: list[list[Any]] = json.loads(notes.read(_path(name)) or _NONE)["commits"]
    except ValueError:
        # A killed process has left the note incomplete; the commits after the ledger's are found again.
        return []
    return found


def _path(name: Name) -> str:
    return f"{CHANGED_ELSEWHERE}/{_file(name)}"


def _file(name: Name) -> str:
    return f"{folder(name[0])}%{folder(name[1])}.json"
