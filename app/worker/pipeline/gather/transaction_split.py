"""The shares of a chunk, each about the size of one Kafka transaction.

A chunk is cut by its bytes in the binlog; records of small rows are a hundred times as large, and a compressed
transaction or one large event comes whole. So the output is cut again, between transactions or within one, down
to single rows.

Invariant: shares follow one another as chunks do; so numbers, parts of a transaction and the position where
another run resumes are made as for chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.gather.gather import Gathering, weight_of_rows
from app.worker.pipeline.gather.gathered import Gathered
from app.worker.pipeline.gather.items import ValuesOf
from app.worker.pipeline.gather.statement_changes import StatementJudge
from app.worker.pipeline.rules import Rules
from app.worker.pipeline.statement_effect import Applied
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import FingerprintWindow, RecentTransactions
from connectors.mysql.rows.compiled.generate import Row


class Digests(Protocol):
    """Makes the object that digests the transactions of a share."""

    def __call__(self, *, is_cut: bool) -> FingerprintWindow | RecentTransactions | None:
        """``is_cut``: whether the share begins within a transaction."""


class Share(NamedTuple):
    """The gathered items of a part of a chunk."""

    gathered: Gathered
    open: Transaction | None
    """The transaction open at its end."""
    landmark: Landmark | None


class Sharing(Gathering):
    """Gathers a chunk, and starts a new share when there is enough for one Kafka transaction."""

    def __init__(
        self,
        tables: CapturedTables,
        rules: Rules,
        values_of: Callable[[str], ValuesOf],
        *,
        applied: Applied | None,
        passing: StatementJudge,
        digests: Digests,
        landmark: Callable[[Transaction], Landmark | None],
        is_cut: bool,
        watched: Collection[TableName] = (),
    ) -> None:
        """``landmark``: the transaction that ended last, as it is in the chunk.

        ``is_cut``: whether the chunk begins within a transaction.
        """
        prints = digests(is_cut=is_cut)
        super().__init__(
            tables, rules, values_of,
            applied=applied, prints=prints, passing=passing, watched=watched,
        )  # fmt: skip
        self._digests, self._landmark = digests, landmark
        self._shares: list[Share] = []
        self._limit = rules.max_bytes
        self._size = self._before = 0
        """Bytes of the share, and of its part before the open transaction."""
        self._current: Transaction | None = None
        """The transaction of the last rows."""
        self._is_cut = False
        """Whether the share begins within that transaction."""

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Decode the rows of an event; cut before or between them if there is enough."""
        if transaction is not self._current:
            if self._size >= self._limit:
                self._cut(None)
            self._current, self._before, self._is_cut = transaction, self._size, False
        self._cut_if_enough(transaction)
        super().rows(transaction, table_map, event_type, body, pos)

    def _park(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        super()._park(transaction, table_map, event_type, body, pos)
        self._size += len(body)

    def _keep(self, transaction: Transaction, rows: list[Row], event_type: int, pos: int) -> None:
        assert self._use is not None
        values = self._use.values_of(rows, event_type)
        size, table_map = weight_of_rows(rows, values), self._map
        if size < 2 * self._limit or len(rows) == 1 or table_map is None:
            self._size += size
            super()._keep(transaction, rows, event_type, pos)
            return
        some = -(-len(rows) * self._limit // size)
        for at in range(0, len(rows), some):
            if self._cut_if_enough(transaction):
                self._enter_table(table_map, transaction, pos)
            self._keep(transaction, rows[at : at + some], event_type, pos)

    def _cut_if_enough(self, transaction: Transaction) -> bool:
        """Cut within the open transaction if there is enough; return whether it was cut."""
        if self._size - self._before < self._limit:
            return False
        self._cut(transaction)
        return True

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        """Drop rows that did not happen; raise UnsupportedEvent if some are in an earlier share."""
        super().undone(what, earlier=earlier or self._is_cut, savepoint=savepoint)

    def all(self, open_: Transaction | None) -> list[Share]:
        """Return the shares of the chunk, at least one; ``open_``: the transaction open at its end."""
        if self.gathered.error is not None:
            open_ = None
        if open_ is not None:
            self.count_passed()
        return [*self._shares, self._share(open_)]

    def _share(self, open_: Transaction | None) -> Share:
        gathered = self.gathered
        landmark = self._landmark(gathered.last) if gathered.last is not None else None
        return Share(gathered, open_, landmark)

    def _cut(self, open_: Transaction | None) -> None:
        """Start another share; ``open_``: the transaction that is cut."""
        self.count_passed()
        self._shares.append(self._share(open_))
        self._is_cut = open_ is not None
        self._size = self._before = 0
        self._begin(self._digests(is_cut=self._is_cut))
