"""Rows that cannot be decoded, told apart from those around them.

The law: a row is taken by itself where the lengths in its event tell where each begins; else the whole event is
one that cannot be decoded, and counts as one row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from connectors.errors import AqueductError, DeadLetterLimitReached, MalformedEvent, RowUnreadable
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.rows.counter import row_borders

ROW, EVENT = "row", "event"
"""What a dead letter holds: a rows event of one row, or one that could not be divided."""


class DeadRows(NamedTuple):
    """What cannot be decoded of the rows of one event."""

    transaction: Transaction
    name: tuple[str, str]
    table_map: TableMap
    event_type: int
    body: bytes
    """Of a rows event, with this row alone where it could be told apart."""
    kind: str
    pos: int
    ordinal: int
    query: str | None
    reason: str


class SiftedRows(NamedTuple):
    """Some rows of an event, in a row; or one that cannot be decoded."""

    rows: list[Row]
    body: bytes = b""
    kind: str = ""
    reason: str = ""

    @property
    def size(self) -> int:
        """How many source rows."""
        return len(self.rows) or 1

    def of(self, event: DeadRows, ordinal: int) -> DeadRows:
        """What cannot be decoded, as a part of its event."""
        return event._replace(body=self.body, kind=self.kind, reason=self.reason, ordinal=ordinal)


def sifted(
    decode: Callable[[int, bytes], list[Row]], event: DeadRows, error: AqueductError
) -> list[SiftedRows]:
    """The rows of an event that could not be decoded as a whole, in their order; ``error`` says why."""
    event_type, body = event.event_type, event.body
    try:
        borders = row_borders(event.table_map, event_type, body)
    except MalformedEvent:
        return [SiftedRows([], body, EVENT, error.detail)]
    head, found, is_sound = body[: borders[0]], [], True
    for begin, end in pairwise(borders):
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
    # Where each row by itself is well, it is their event that is not.
    return [SiftedRows([], body, EVENT, error.detail)] if is_sound else found


def refused(part: SiftedRows, error: AqueductError, *, limit: int, row: int) -> AqueductError:
    """Why a destination stops at what cannot be decoded; ``row`` counts the rows of its event from 0."""
    table = error.where.get("table")
    if limit:
        return DeadLetterLimitReached(f"{limit} are allowed: {part.reason}", table=table)
    remedy = (
        "Nothing was skipped. Set the destination's poison to dead_letter to put such rows aside, "
        "or report it with the coordinates above."
    )
    return MalformedEvent(part.reason, remedy=remedy, table=table, row_of_event=row)
