"""Rows that enter the stream between two transactions of the source, such as those of no binlog.

Invariant: they are numbered with the stream, and move neither its position nor its GTIDs.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.pipeline.gather.inserted_events import RowsEvent
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertedRows:
    """Whole transactions, together no more than one Kafka transaction takes."""

    start: Coordinates
    """Between which transactions they enter."""
    events: tuple[RowsEvent, ...]
    effect: None = None

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return sum(len(event.body) + len(event.table_map) for event in self.events)
