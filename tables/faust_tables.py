"""The checkpoint as Faust tables: the journal folded on every worker, backed by Faust's own changelogs.

The law: a row keeps the journal offset it is from and never goes back to an older one; while Faust recovers,
the tables say that they are empty, which only makes the journal's replay longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import faust

from connectors.kafka.reading import StoredRecord
from tables.checkpoint import newer, row_of


class FaustCheckpoint:
    """Two global tables: cursors (a row a destination) and schemas (a row a table version)."""

    def __init__(self, app: faust.App, *, partitions: int) -> None:
        self._app = app
        # recovery_buffer_size=1: with the default a global table shows rows only in steps of 1000.
        self.cursors = app.GlobalTable("cursors", partitions=partitions, recovery_buffer_size=1)
        self.schemas = app.GlobalTable("schemas", partitions=partitions, recovery_buffer_size=1)

    def fold(self, record: StoredRecord) -> None:
        """Take a journal record in; call it only while Faust iterates the journal's stream."""
        key, row = row_of(record)
        table = self.schemas if key.startswith("schema/") else self.cursors
        if newer(row, table.get(key)):
            table[key] = row

    @property
    def rows(self) -> Mapping[str, dict[str, Any]]:
        """All rows; none while Faust recovers."""
        if not self._app.tables.recovery.completed.is_set():
            return {}
        return {**dict(self.cursors.items()), **dict(self.schemas.items())}
