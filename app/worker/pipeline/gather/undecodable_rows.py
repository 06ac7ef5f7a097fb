"""Undecodable rows, separated from the other rows of their event.

Invariant: rows are separated if the lengths in their event determine where each row starts; else the whole
event is undecodable, and counts as one row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from connectors.errors import AqueductError, DeadLetterLimitReached, MalformedEvent, RowUnreadable
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows.compiled import Row
from connectors.mysql.rows.counter import row_boundaries

ROW, EVENT = "row", "event"
"""The content of a dead letter: a rows event of one row, or an event that could not be divided."""


class DeadRows(NamedTuple):
    """The undecodable rows of one event."""

    transaction: Transaction
    name: tuple[str, str]
    table_map: TableMap
    event_type: int
    body: bytes
    """The body of a rows event, with this row alone if it could be separated."""
    kind: str
    pos: int
    ordinal: int
    query: str | None
    reason: str


class SiftedRows(NamedTuple):
    """Consecutive rows of an event, or one undecodable row."""

    rows: list[Row]
    body: bytes = b""
    kind: str = ""
    reason: str = ""

    @property
    def size(self) -> int:
        """Count of source rows."""
        return len(self.rows) or 1

    def of(self, event: DeadRows, ordinal: int) -> DeadRows:
        """Return the undecodable row as a part of its event."""
        return event._replace(body=self.body, kind=self.kind, reason=self.reason, ordinal=ordinal)


def sifted(
    decode: Callable[[int, bytes], list[Row]], event: DeadRows, error: AqueductError
) -> list[SiftedRows]:
    """Return, in order, the rows of an event that failed to decode as a whole with ``error``."""
    event_type, body = event.event_type, event.body
    try:
        boundaries = row_boundaries(event.table_map, event_type, body)
    except MalformedEvent:
        return [SiftedRows([], body, EVENT, error.detail)]
    head, found, is_sound = body[: boundaries[0]], [], True
    for begin, end in pairwise(boundaries):
        one = head + body[begin:end]
        try:
            rows = decode(event_type, one)
        except (MalformedEvent, RowUnreadable) as why:
            found.append(SiftedRows([], one, ROW, why.detail))
            is_sound = False
            continue
        if found and found[-1].rows:
            found[-1].rows.extend(rows)
        else:
            found.append(SiftedRows(rows))
    # If each row decodes by itself, the event is at fault.
    return [SiftedRows([], body, EVENT, error.detail)] if is_sound else found


def refused(part: SiftedRows, error: AqueductError, *, limit: int, row: int) -> AqueductError:
    """Return the error that stops a destination at an undecodable row; ``row``: its index in the event."""
    table = error.context.get("table")
    if limit:
        return DeadLetterLimitReached(f"{limit} are allowed: {part.reason}", table=table)
    remedy = (
        "Nothing was skipped. Set the destination's poison to dead_letter to put such rows aside, "
        "or report it with the coordinates above."
    )
    return MalformedEvent(part.reason, remedy=remedy, table=table, row_of_event=row)
