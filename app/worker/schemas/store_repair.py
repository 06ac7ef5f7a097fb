"""Comparison of a central schema store with a destination's history at the beginning of a run.

Invariant: records missing in the store are written, from the journal if the run no longer holds
them. Records after a position that the destination returned to are invalid until they occur again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from connectors.mysql.schema_store.rows import HistoryRow, Mark, RowKey
from connectors.mysql.schema_store.session import MetaSession
from connectors.mysql.schema_store.tables import HISTORY, SNAPSHOT
from tables.history.checkpoint import CheckpointHead
from tables.history.history import SchemaHistory
from tables.history.record import SchemaRecord
from tables.history.schema_store_rows import key_of, record_rows, snapshot_key, snapshot_rows

Journal = Callable[[str], SchemaHistory]
"""Reads a destination's whole history from the journal."""

_BATCH = 200
"""Records in one transaction."""


class Comparison:
    """A store and a history, and the operations that make them equal."""

    def __init__(
        self, session: MetaSession, destination: str, history: SchemaHistory, count: int
    ) -> None:
        self._session = session
        self._destination = destination
        self._history = history
        self._records = [one for one in history.records if one.number <= count]
        self._base = history.checkpoints[0]
        self._stored = session.marks(HISTORY, destination)
        self._snapshots = session.marks(SNAPSHOT, destination)

    def settle(self, journal: Journal) -> None:
        """Write what the store lacks up to the base, and mark records that the history no longer has."""
        if self._lacks_older():
            self._write_older(journal(self._destination))
        if self._is_new(self._base):
            self._session.write(snapshot_rows(self._history.content(self._base)))
        self._forget()

    def _lacks_older(self) -> bool:
        """Return whether a record before the base is missing that the journal may still have."""
        if self._base.begins:
            return False
        if not self._snapshots:
            return True
        numbers = {mark.number for mark in self._stored}
        oldest = min(mark.count for mark in self._snapshots)
        return any(number not in numbers for number in range(oldest + 1, self._base.count + 1))

    def _write_older(self, whole: SchemaHistory) -> None:
        there = {mark.number for mark in self._stored}
        older = [record for record in whole.records if record.number not in there]
        for batch in batches(older, self._base.count):
            write_records(self._session, batch)
        for head in whole.checkpoints:
            if head.number < self._base.number and self._is_new(head):
                self._session.write(snapshot_rows(whole.content(head)))

    def _is_new(self, head: CheckpointHead) -> bool:
        key = snapshot_key(head)
        return all((mark.number, mark.key) != (head.number, key) for mark in self._snapshots)

    def _forget(self) -> None:
        """Invalidate records after the history's end: a destination that went back meets them
        again, or never."""
        records = {key_of(record) for record in self._records}
        heads = {snapshot_key(head) for head in self._history.checkpoints}
        self._forget_all(HISTORY, self._stored, self._base.count, records)
        self._forget_all(SNAPSHOT, self._snapshots, self._base.number, heads)

    def _forget_all(self, table: str, there: list[Mark], base: int, kept: set[RowKey]) -> None:
        surplus = [mark.key for mark in there if mark.number > base and mark.key not in kept]
        if surplus:
            self._session.forget(table, self._destination, surplus)


def batches(records: Iterable[SchemaRecord], count: int) -> Iterator[list[SchemaRecord]]:
    """Return the records up to a number, in batches of one transaction."""
    wanted = [record for record in records if record.number <= count]
    for begin in range(0, len(wanted), _BATCH):
        yield wanted[begin : begin + _BATCH]


def write_records(session: MetaSession, records: Iterable[SchemaRecord]) -> None:
    """Write records in one transaction."""
    rows: list[HistoryRow] = [row for record in records for row in record_rows(record)]
    session.write(rows)
