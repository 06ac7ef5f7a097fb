"""`python -m app schema history`: what became of a table, version by version; or which tables there are.

The law: every step that touched the table is listed, also those whose effect is not known.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

from app.commands import arguments
from app.commands.output import (
    aligned,
    answer,
    difference_value,
    place_text,
    quarantine_lines,
    quarantine_value,
    record_kind,
    record_value,
    when,
)
from app.commands.schema_history import Tell, ToldHistory, source_of, told
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.schema_history.diff import Difference, differences
from tables.schema_history.history import SchemaHistory
from tables.schema_history.record import Known, SchemaRecord


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a destination, and perhaps a table."""
    arguments.add_destination(parser)
    arguments.add_table(parser, optional=True)
    arguments.add_store(parser)
    arguments.add_format(parser)


def run(options: argparse.Namespace, tell: Tell = told) -> int:
    """Print the versions, or all tables; the exit code."""
    found = source_of(options, tell)(options.destination)
    if options.table is None:
        rows = list(_tables(found))
        head = ["table", "state", "steps", "since", "quarantine"]
        lines = aligned(
            head, [["" if row[key] is None else str(row[key]) for key in head] for row in rows]
        )
        answer(options.format, {"destination": options.destination, "tables": rows}, lines)
        return 0
    steps, aside = list(steps_of(found, options.table)), found.quarantined(options.table)
    value = {
        "table": ".".join(options.table),
        "quarantine": quarantine_value(aside),
        "steps": [_value(*step) for step in steps],
    }
    lines = list(_lines(found.history, options.table, steps))
    lines += ["", *quarantine_lines(aside)] if aside is not None else []
    answer(options.format, value, lines)
    return 0 if found.history.state(*options.table) is not None else 1


Step = tuple[SchemaRecord, list[Difference]]


def steps_of(found: ToldHistory, name: TableName) -> Iterator[Step]:
    """The steps that concern a table, each with what it changed."""
    key = found.key(name)
    for record in found.history.records:
        if not any(found.key(one) == key for one in record.concerned):
            continue
        changed: list[Difference] = []
        for change in record.changes:
            if isinstance(change, TableChange) and found.key(change.name) == key:
                changed += _renames(change)
                changed += [] if change.renamed_to else differences(change.old, change.new)
        yield record, changed


def _renames(change: TableChange) -> Iterator[Difference]:
    name = ".".join(change.name)
    if change.renamed_to is not None:
        yield Difference(what="renamed", old=name, new=".".join(change.renamed_to))
    if change.renamed_from is not None:
        yield Difference(what="renamed", old=".".join(change.renamed_from), new=name)


def _value(record: SchemaRecord, found: list[Difference]) -> dict[str, Any]:
    return {**record_value(record), "differences": [difference_value(one) for one in found]}


def _lines(history: SchemaHistory, name: TableName, steps: list[Step]) -> Iterator[str]:
    title = ".".join(name)
    begin = history.checkpoints[0].place
    at_first = history.at(begin).state(*name)
    what = "known" if isinstance(at_first, Known) else "not known" if at_first else "not there"
    yield f"{title}  {what} where the history begins: {when(begin.ts_ms)}  {place_text(begin)}"
    for record, found in steps:
        yield ""
        what = record_kind(record)
        yield f"{record.number}  {when(record.place.ts_ms)}  {place_text(record.place)}  {what}"
        if record.given is not None:
            yield f"    said by {record.given.by}, {when(record.given.ts_ms)}"
        if record.reason is not None:
            yield f"    not resolved: {record.reason}"
        yield from (f"    {one}" for one in found)


def _tables(found: ToldHistory) -> Iterator[dict[str, Any]]:
    view = found.history.now()
    steps = Counter(
        found.key(name) for record in found.history.records for name in record.concerned
    )
    for name, _ in sorted(view.versions(), key=lambda pair: pair[0]):
        state = view.state(*name)
        assert state is not None
        aside = found.quarantined(name)
        yield {
            "table": ".".join(name),
            "state": type(state).__name__.lower(),
            "steps": steps[found.key(name)],
            "since": when(state.since.ts_ms),
            "quarantine": aside and ("given up" if aside.is_given_up else "set aside"),
        }
