"""The history of one table, step by step, and a summary of all tables.

Invariant: every step that touched the table is included, also one whose effect is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from app.operator.operations.schema.destination_history import DestinationHistory, ReadHistory
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.history.differences import Difference, differences
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord, TableState
from tables.state.quarantine import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that concerns a table, and its changes."""

    record: SchemaRecord
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """All steps of one table."""

    begin: HistoryPosition
    """The beginning of the history."""
    at_begin: TableState | None
    """The table at that position."""
    now: TableState | None
    steps: tuple[Step, ...]
    quarantine: Entry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """One table at the end of the history."""

    name: TableName
    state: TableState
    steps: int
    quarantine: Entry | None


async def table_history(read: ReadHistory, table: TableName) -> TableHistory:
    """Return the steps of a table, the oldest first."""
    found = await read()
    begin = found.history.checkpoints[0].position
    return TableHistory(
        begin=begin,
        at_begin=found.history.at(begin).state(*table),
        now=found.history.state(*table),
        steps=tuple(_steps(found, table)),
        quarantine=found.quarantined(table),
    )


async def table_summaries(read: ReadHistory) -> tuple[TableSummary, ...]:
    """Return all tables that the history knows, by name."""
    return tuple(_summaries(await read()))


def _steps(found: DestinationHistory, name: TableName) -> Iterator[Step]:
    key = found.key(name)
    for record in found.history.records:
        if not any(found.key(one) == key for one in record.concerned):
            continue
        changed: list[Difference] = []
        for change in record.changes:
            if isinstance(change, TableChange) and found.key(change.name) == key:
                changed += _renames(change)
                changed += [] if change.renamed_to else differences(change.old, change.new)
        yield Step(record=record, differences=tuple(changed))


def _renames(change: TableChange) -> Iterator[Difference]:
    name = ".".join(change.name)
    if change.renamed_to is not None:
        yield Difference(what="renamed", old=name, new=".".join(change.renamed_to))
    if change.renamed_from is not None:
        yield Difference(what="renamed", old=".".join(change.renamed_from), new=name)


def _summaries(found: DestinationHistory) -> Iterator[TableSummary]:
    view = found.history.now()
    steps = Counter(
        found.key(name) for record in found.history.records for name in record.concerned
    )
    for name, _ in sorted(view.versions(), key=lambda pair: pair[0]):
        state = view.state(*name)
        assert state is not None
        entry = found.quarantined(name)
        yield TableSummary(name=name, state=state, steps=steps[found.key(name)], quarantine=entry)
