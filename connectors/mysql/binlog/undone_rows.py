"""Statements that change or undo more than a transaction's rows show.

Servers write rows that were undone if their transaction has what cannot be undone, as MariaDB does beside a
DROP TEMPORARY TABLE. Rows of tables without transactions are never among them: in the row format, servers write
these at once, as transactions of their own (``use_trans_cache``, MySQL's sql/binlog.cc, MariaDB's sql/log.cc).

Invariant: a change that is written as a statement, rows that were undone, and a statement that is
not understood are reported or refused; none is ignored.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.changes import Changes, Transaction
from connectors.mysql.binlog.events import HEADER_SIZE, EventType, Query
from connectors.mysql.binlog.statement_kind import Kind, kind_of, shortened, words

_UNDONE = {
    Kind.SAVEPOINT: "a ROLLBACK TO SAVEPOINT of rows that may be published already",
    Kind.ROLLBACK: "a transaction that ends in ROLLBACK, and whose first rows may be published already",
}
_NAME = re.compile(r"(?:SAVEPOINT|TO)\s+(?!SAVEPOINT\b)(`(?:[^`]|``)+`|[^\s;]+)", re.IGNORECASE)


def report(
    kind: Kind, query: Query, transaction: Transaction, changes: Changes, rows: tuple[bool, bool]
) -> None:
    """Report such a statement; ``rows``: whether the transaction has rows, and has any in earlier chunks."""
    if kind is Kind.CHANGE:
        changes.change(transaction, query)
    if kind is Kind.SAVEPOINT and words(query.sql, 1) == ["SAVEPOINT"]:
        changes.savepoint(savepoint_of(query.sql))
    elif (
        rows[0]
        and not transaction.is_settled
        and kind in _UNDONE
        and words(query.sql, 1) == ["ROLLBACK"]
    ):
        name = savepoint_of(query.sql) if kind is Kind.SAVEPOINT else None
        changes.undone(_UNDONE[kind], earlier=rows[1], savepoint=name)
    if kind is Kind.UNKNOWN:
        raise UnsupportedEvent(f"the statement {shortened(query.sql)}", database=query.database)


def savepoint_of(sql: str) -> str:
    """Return the name of a savepoint, as names of one are equal; the whole text if none is found."""
    found = _NAME.search(sql)
    return (found[1] if found is not None else sql).strip("`").lower()


def may_be_undone(event: bytes | memoryview) -> bool:
    """Whether a transaction that begins with this event may have rows that were undone.

    Those of MySQL 8.0 and later have none. MySQL 5.7 writes them beside a statement alone, as its GTID event
    says (``FLAG_MAY_HAVE_SBR``); nothing says so in MariaDB's, nor where transactions have no such event.
    """
    kind = event[4]
    if kind in (EventType.GTID, EventType.ANONYMOUS_GTID):
        return bool(event[HEADER_SIZE] & _MAY_HAVE_STATEMENTS)
    return kind != EventType.GTID_TAGGED


_MAY_HAVE_STATEMENTS = 1


class UndoneRows:
    """The rows events that were undone, by their number, from the statements between them."""

    def __init__(self) -> None:
        self.count = 0
        """The number of rows events so far."""
        self.is_known = True
        """Whether each savepoint that was rolled back to was among the statements."""
        self._began = 0
        self._savepoints: dict[str, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []

    def begin(self) -> None:
        """Another transaction begins."""
        self._began = self.count
        self._savepoints.clear()

    def statement(self, sql: str) -> bool:
        """A statement; return whether it ends a transaction."""
        kind = kind_of(sql)
        if kind is Kind.SAVEPOINT:
            verb, name = words(sql, 1), savepoint_of(sql)
            if verb == ["SAVEPOINT"]:
                self._savepoints[name] = self.count
            elif verb == ["ROLLBACK"]:
                self.is_known &= name in self._savepoints
                self._undo(self._savepoints.get(name, self.count))
            return False
        if kind is Kind.ROLLBACK:
            self._undo(self._began)
        if kind in (Kind.BEGIN, Kind.ROLLBACK, Kind.COMMIT):
            self.begin()
        return kind in (Kind.ROLLBACK, Kind.COMMIT)

    def _undo(self, since: int) -> None:
        while self._starts and self._starts[-1] >= since:
            self._starts.pop()
            self._ends.pop()
        if since < self.count:
            self._starts.append(since)
            self._ends.append(self.count)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number)
        return at > 0 and number < self._ends[at - 1]
