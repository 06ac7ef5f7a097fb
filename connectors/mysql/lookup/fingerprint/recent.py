"""Digests of the last published transactions with GTIDs, to compare them with another server's copies.

A standby may have a GTID and not its rows: a replication filter leaves an empty transaction. So
rows are compared, as ``connectors.mysql.lookup.fingerprint.fingerprint`` digests them.

Invariant: only transactions within one chunk count, and only the last few of each chunk. On the hot
path events are only recorded; which of them count is decided at the chunk's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.mariadb_events import FIRST_COMPRESSED_ROWS, plain_rows
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.fingerprint.fingerprint import FingerprintWindow

KEPT = 8
"""Number of transactions that a cursor keeps."""
_LARGE = 256 * 1024
"""Most bytes of rows digested: more would be costly here, and again when reading them at a failover."""


@dataclass(frozen=True, slots=True)
class Recent:
    """A published transaction: its GTID, a digest of its rows, and its commit time in milliseconds."""

    gtid: str
    digest: str
    ts_ms: int


Part = tuple[TableMap, int, bytes] | Query


@dataclass(slots=True)
class RecentTransactions:
    """Collects the last whole transactions of one chunk."""

    captures: Callable[[str, str], bool]
    is_cut: bool = False
    """Whether the chunk begins within a transaction, or contains a part of one."""
    _noted: list[Part | Transaction] = field(default_factory=list)
    """Events in order, each transaction after its own."""

    def rows(self, table_map: TableMap, event_type: int, body: bytes) -> None:
        """Record the rows of an event."""
        self._noted.append((table_map, event_type, body))

    def statement(self, query: Query) -> None:
        """Record a statement."""
        self._noted.append(query)

    def end(self, transaction: Transaction, pos: int) -> None:  # noqa: ARG002
        """Record a transaction's end."""
        self._noted.append(transaction)

    def found(self) -> list[Recent]:
        """The last transactions, in the order of the binlog."""
        made: list[Recent] = []
        for transaction, parts in self._whole():
            size = sum(len(one[2]) for one in parts if isinstance(one, tuple))
            if parts and transaction.gtid is not None and size <= _LARGE:
                made.append(_recent(transaction, parts))
                if len(made) == KEPT:
                    break
        return made[::-1]

    def _whole(self) -> Iterator[tuple[Transaction, list[Part]]]:
        """Yield transactions with the events that count, the last one first."""
        last: Transaction | None = None
        parts: list[Part] = []
        for one in reversed(self._noted):
            if isinstance(one, Transaction):
                if last is not None:
                    yield last, parts[::-1]
                last, parts = one, []
            elif isinstance(one, Query) or self.captures(one[0].database, one[0].table):
                parts.append(one)
        if last is not None and not self.is_cut:
            yield last, parts[::-1]


def _recent(transaction: Transaction, parts: list[Part]) -> Recent:
    assert transaction.gtid is not None
    return Recent(transaction.gtid, digest(transaction, parts), transaction.committed_ms)


def digest(transaction: Transaction, parts: list[Part]) -> str:
    """The digest of a transaction's rows and statements, all of them of captured tables."""
    prints = FingerprintWindow(lambda _database, _table: True)
    for part in parts:
        if isinstance(part, Query):
            prints.statement(part)
            continue
        table_map, event_type, body = part
        if event_type >= FIRST_COMPRESSED_ROWS:
            event_type, body = plain_rows(event_type, body)
        prints.rows(table_map, event_type, body)
    prints.end(transaction, 0)
    prints.follow({})
    return prints.done[0].digest
