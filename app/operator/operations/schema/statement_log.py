"""Statements that changed or emptied tables, selected by filters.

Invariant: only the filters exclude a step; definitions given by operators are included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.operator.arguments import GivenPosition
from app.operator.operations.schema.destination_history import DestinationHistory, ReadHistory
from connectors.mysql.ddl.definition import TableName
from tables.history.position import AtTime
from tables.history.record import SchemaRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The selection; without any filter, everything."""

    since: GivenPosition | None = None
    until: GivenPosition | None = None
    server: str | None = None
    """The server of given files and offsets; None: the one that is read now."""
    types: tuple[str, ...] = ()
    """The first words of a statement."""
    table: TableName | None = None
    is_unresolved: bool = False
    """Only statements whose effect is not known."""


async def filtered_records(read: ReadHistory, filters: Filters) -> tuple[SchemaRecord, ...]:
    """Return the steps of the history, the oldest first."""
    return tuple(_selected(await read(), filters))


def record_kind(record: SchemaRecord) -> str:
    """Return a step's kind in a few words: a statement's type, or the origin of a definition."""
    if record.kind == "statement":
        return record.type
    source = record.given.source if record.given is not None else ""
    return f"{record.kind} ({source})" if source else record.kind


def _selected(found: DestinationHistory, filters: Filters) -> Iterator[SchemaRecord]:
    first, last = (
        _mark(found, position, filters.server) for position in (filters.since, filters.until)
    )
    types = tuple(words.upper() for words in filters.types)
    table = None if filters.table is None else found.key(filters.table)
    for record in found.history.records:
        if (
            record.kind != "baseline"
            and (first is None or not _is_up_to(record, first))
            and (last is None or _is_up_to(record, last))
            and (not types or record_kind(record).upper().startswith(types))
            and (table is None or table in map(found.key, record.concerned))
            and (not filters.is_unresolved or record.reason is not None)
        ):
            yield record


def _mark(
    found: DestinationHistory, position: GivenPosition | None, server: str | None
) -> AtTime | int | None:
    """Return a time, or the number of the last step as of a position."""
    if position is None:
        return None
    query = found.query(position, server)
    return query if isinstance(query, AtTime) else found.history.at(query).number


def _is_up_to(record: SchemaRecord, mark: AtTime | int) -> bool:
    if isinstance(mark, AtTime):
        return record.position.ts_ms <= mark.ts_ms
    return record.number <= mark
