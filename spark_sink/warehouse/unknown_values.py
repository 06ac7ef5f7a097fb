"""Columns in which rows have NULL because their value is not known, for `status`.

Invariant: a column is noted before the commit that adds it, and reported only while the table has such rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from spark_sink.text.quoting import COLUMNS, argument, quoted
from spark_sink.warehouse.columns import Move, concerned_sql
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.notes import Notes, json_of, note_of_table
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.spark_failures import FAILURES


def note(notes: Notes, name: Name, moves: Sequence[Move]) -> None:
    """Note the columns of a table that `moves` leave without a value."""
    if not moves:
        return
    kept = {(one.column, one.source, one.until): one for one in [*noted(notes, name), *moves]}
    columns = [
        {
            "column": one.column,
            "source": astuple(one.source),
            "until": one.until,
            "reason": one.reason,
        }
        for one in kept.values()
    ]
    notes.write(_path(name), json.dumps({"version": 1, "columns": columns}))


def noted(notes: Notes, name: Name) -> list[Move]:
    """The noted columns of a table; none if a crash has left the note incomplete."""
    columns = json_of(notes, _path(name), {}).get("columns", ())
    return [Move(**{**one, "source": Source(*one["source"])}) for one in columns]


def column_lines(warehouse: Warehouse[Any]) -> Iterator[tuple[Name, str]]:
    """A line for each noted column that rows still lack, with its table."""
    there = set(warehouse.notes.names(COLUMNS))
    if not there:
        return
    for name in warehouse.tables.names():
        if _path(name).rpartition("/")[2] in there:
            # If the table cannot be read, `status` reports its wait.
            with suppress(*FAILURES):
                yield from [(name, line) for line in _lines(warehouse, name)]


def _lines(warehouse: Warehouse[Any], name: Name) -> Iterator[str]:
    if (shape := warehouse.tables.shape(*name)) is None:
        return
    for move in noted(warehouse.notes, name):
        own = shape.spelling(move.column)
        if own is None:
            continue
        lacking = f"({concerned_sql([move], shape)}) AND {quoted(own)} IS NULL"
        if number := warehouse.tables.rows(shape).where(lacking).count():
            text = f"NULL in {number} row(s) from before it was added: its value is not known"
            source = move.source
            table = argument((source.database, source.table))
            start = f"python -m app snapshot start {source.destination} {table}"
            yield f"{own} is {text} ({move.reason}). To publish them with it, run: {start}"


def _path(name: Name) -> str:
    return note_of_table(COLUMNS, name)
