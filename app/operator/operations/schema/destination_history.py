"""The schema history of a destination, with the destination's position and its quarantined tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from app.operator.arguments import GivenPosition
from connectors.errors import HistoryTooShort
from connectors.mysql.ddl.definition import TableName
from tables.history.history import SchemaHistory
from tables.history.position import PositionQuery, reached
from tables.history.view import SchemaView
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.quarantine import Entry, Outcome

BEGIN = "Run a worker with this destination; its first run begins the history."


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationHistory:
    """The history, and its destination's position."""

    history: SchemaHistory
    cursor: Cursor
    quarantine: Mapping[TableName, Entry] = field(default_factory=dict)
    """Tables that are or were quarantined; the central store records none."""

    @classmethod
    def of(cls, state: DestinationState) -> DestinationHistory:
        """Return the history of a destination's records; raise HistoryTooShort if none was begun."""
        history = state.history()
        if history is None or state.cursor is None:
            raise HistoryTooShort(
                "the destination has no schema history yet",
                destination=state.destination,
                remedy=BEGIN,
            )
        return cls(history=history, cursor=state.cursor, quarantine=state.quarantine.entries)

    def key(self, name: TableName) -> TableName:
        """A table's name as the server compares it."""
        server = self.history.checkpoints[-1].server
        return (name[0].lower(), name[1].lower()) if server.lower_case_table_names else name

    def query(self, position: GivenPosition, server: str | None = None) -> PositionQuery:
        """Return a given position as a query for this history."""
        offset = self.cursor.offset
        return position.history_query(server or offset.server_uuid, offset.coordinates)

    def at(self, position: GivenPosition | None, server: str | None = None) -> SchemaView:
        """Return all schemas as of a position, or now; raise HistoryTooShort or PositionUnknown."""
        if position is None:
            return self.history.now()
        return self.history.at(self.query(position, server))

    def quarantined(self, name: TableName, position: GivenPosition | None = None) -> Entry | None:
        """Return the entry of a table that was quarantined before a position and is not released."""
        for other, entry in self.quarantine.items():
            if self.key(other) == self.key(name) and entry.outcome is not Outcome.RELEASED:
                is_before = (
                    position is None or reached(entry.since, self.query(position)) is not False
                )
                return entry if is_before else None
        return None


ReadHistory = Callable[[], Awaitable[DestinationHistory]]
"""Reads the present history of one destination."""
