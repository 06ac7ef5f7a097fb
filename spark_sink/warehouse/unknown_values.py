"""Columns in which rows have NULL because their value is not known, for `status`.

Invariant: a column is noted before the commit that adds it, and reported only while the table has such rows. If
the mapping covers the column since, the places beside the table that still have earlier values are reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from spark_sink.errors import ForeignTable
from spark_sink.text.quoting import COLUMNS, argument, literal, quoted
from spark_sink.warehouse.columns import COVERED, Move, concerned_sql
from spark_sink.warehouse.identity import source_sql
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.moves import DROPPED
from spark_sink.warehouse.notes import Notes, json_of, note_of_table
from spark_sink.warehouse.protocol import Name, Tables, Warehouse
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
        if places := uncovered_places(warehouse, name, move):
            yield (
                f"values of {move.column} from before the mapping covered it are still in {', '.join(places)}: "
                "set the column to NULL there, or remove these rows or tables (docs/mapping.md, Masked columns)"
            )
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


def uncovered_places(warehouse: Warehouse[Any], name: Name, move: Move) -> list[str]:
    """Return the places beside a table that have values from before the mapping covered a column.

    They are the table's history, and tables to which a DROP at the source has moved rows. Empty for a column
    that no rule covers.
    """
    if move.reason not in COVERED:
        return []
    tables, histories = warehouse.tables, warehouse.histories.tables
    dropped = [
        one
        for one in tables.names()
        if one[0] == name[0] and one[1].startswith(f"{name[1]}{DROPPED}")
    ]
    found = [f"the history of {'.'.join(name)}"] if _may_have_values(histories, name, move) else []
    return found + [".".join(one) for one in sorted(dropped) if _may_have_values(tables, one, move)]


def _may_have_values(tables: Tables[Any], name: Name, move: Move) -> bool:
    """Whether rows of a table, up to the version of the move, have a value in its column.

    A table that cannot be read may have some: it ends no batch, since only a warning depends on it.
    """
    try:
        return _has_values(tables, name, move)
    except (ForeignTable, *FAILURES):
        return True


def _has_values(tables: Tables[Any], name: Name, move: Move) -> bool:
    if (shape := tables.shape(*name)) is None or (own := shape.spelling(move.column)) is None:
        return False
    # Rows that a DROP has moved are of another name than their table.
    own_name = (move.source.database, move.source.table) == name
    of = (
        source_sql(shape, move.source)
        if shape.apart or own_name
        else f"__destination = {literal(move.source.destination)}"
    )
    old = f"{of} AND __schema <= {move.until} AND {quoted(own)} IS NOT NULL"
    return not tables.rows(shape).where(old).isEmpty()


def _path(name: Name) -> str:
    return note_of_table(COLUMNS, name)
