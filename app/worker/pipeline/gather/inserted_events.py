"""Rows events from outside a chunk, such as the parked events of a table.

Invariant: the events are gathered like those of a chunk, but neither end a transaction of the source nor move
the position.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from app.worker.pipeline.gather.gather import Gathering
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.table_map import TableMap, parse_table_map


class RowsEvent(NamedTuple):
    """The rows of one event, in the binlog's form."""

    transaction: Transaction
    table_map: bytes
    """Their TABLE_MAP."""
    event_type: int
    body: bytes
    pos: int
    ordinal: int
    """The first row's ordinal in its transaction."""
    text: str | None = None
    """The statement that changed these rows, where known."""


class Inserting:
    """Gathers events from outside a chunk."""

    def __init__(self, *, mariadb: bool) -> None:
        self._mariadb = mariadb
        self._maps: dict[bytes, TableMap] = {}

    def event(self, event: RowsEvent, gathering: Gathering) -> TableMap:
        """Gather one event and return its table map."""
        gathering.gathered.ordinal = event.ordinal
        if event.text is not None:
            gathering.query(event.text)
        table_map = self.mapped(event.table_map)
        gathering.rows(event.transaction, table_map, event.event_type, event.body, event.pos)
        return table_map

    def transactions(self, events: tuple[RowsEvent, ...], gathering: Gathering) -> None:
        """Gather whole transactions, with transaction markers if those are published."""
        for transaction, own in groupby(events, lambda event: event.transaction):
            for event in own:
                self.event(event, gathering)
            gathering.mark_end(transaction)

    def mapped(self, raw: bytes) -> TableMap:
        """Return a table map; the same bytes yield the same object."""
        table_map = self._maps.get(raw)
        if table_map is None:
            table_map = self._maps[raw] = parse_table_map(raw, mariadb=self._mariadb)
        return table_map
