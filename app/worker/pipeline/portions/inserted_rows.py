"""Rows that enter the stream between two transactions of the source, such as rows without a binlog.

Invariant: they are numbered with the stream, and move neither its position nor its GTIDs.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.worker.pipeline.gather.inserted_events import RowsEvent
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertedRows:
    """Whole transactions that fit into one Kafka transaction together."""

    start: Coordinates
    """The position between transactions at which they enter."""
    events: tuple[RowsEvent, ...]
    effect: None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(len(event.body) + len(event.table_map) for event in self.events)
