"""The checkpoint as Faust tables: the journal folded on every worker, backed by Faust's own changelogs.

The law: a row keeps the journal offset it is from and never goes back to an older one; while Faust recovers,
the tables say that they are empty, which only makes the journal's replay longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import faust

from connectors.kafka.reading import StoredRecord
from tables.checkpoint import Row, take


class FaustCheckpoint:
    """Three global tables: cursors (a row a destination), schemas (a row a table version), and histories (the
    newest checkpoint of each schema history, in parts)."""

    def __init__(self, app: faust.App, *, partitions: int) -> None:
        self._app = app

        def table(name: str) -> Any:
            # recovery_buffer_size=1: with the default a global table shows rows only in steps of 1000.
            return app.GlobalTable(name, partitions=partitions, recovery_buffer_size=1)

        self.cursors = table("cursors")
        self.schemas = table("schemas")
        self.histories = table("histories")

    @property
    def changelogs(self) -> list[str]:
        """The names of the topics behind the tables."""
        return [
            table.changelog_topic_name for table in (self.cursors, self.schemas, self.histories)
        ]

    def fold(self, record: StoredRecord) -> None:
        """Take a journal record in; call it only while Faust iterates the journal's stream."""
        kind = record.key.partition(b"/")[0]
        table = {b"schema": self.schemas, b"checkpoint": self.histories}.get(kind, self.cursors)
        take(_Rows(table), record)

    @property
    def rows(self) -> Mapping[str, Row]:
        """All rows; none while Faust recovers."""
        if not self._app.tables.recovery.completed.is_set():
            return {}
        tables = (self.cursors, self.schemas, self.histories)
        return {key: row for table in tables for key, row in table.items()}


class _Rows(MutableMapping[str, Row]):
    """A Faust table as a mapping with types."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getitem__(self, key: str) -> Row:
        row: Row = self._table[key]
        return row

    def __setitem__(self, key: str, row: Row) -> None:
        self._table[key] = row

    def __delitem__(self, key: str) -> None:
        del self._table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._table.keys()))

    def __len__(self) -> int:
        return len(self._table)
