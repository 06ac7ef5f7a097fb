"""Statements that change or undo rows, which the rows events of their transaction do not show.

A server writes rows that were undone if their transaction contains a change that cannot be undone, as MariaDB
does for a DROP TEMPORARY TABLE. Rows of tables without transactions are never undone: in the row format,
servers write them at once, in separate transactions (``use_trans_cache``, MySQL's sql/binlog.cc, MariaDB's
sql/log.cc).

Invariant: a change written as a statement, undone rows, and a statement that is not understood are
reported or refused, never ignored.
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
_NAME = re.compile(
    r"""(?:SAVEPOINT|TO)\s+(?!SAVEPOINT\b)(`(?:[^`]|``)+`|"(?:[^"]|"")+"|[^\s;]+)""", re.IGNORECASE
)
"""A savepoint's name; servers quote it with ``"`` for a session with ANSI_QUOTES."""


def report(
    kind: Kind, query: Query, transaction: Transaction, changes: Changes, rows: tuple[bool, bool]
) -> None:
    """Report a change or undo by a statement; ``rows``: whether there are rows, and rows in earlier chunks."""
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
    """Return the savepoint's name in lower case, without quotes; the whole statement if it has no name."""
    found = _NAME.search(sql)
    name = found[1] if found is not None else sql
    quote = name[0] if name[:1] in ("`", '"') else ""
    return (name[1:-1].replace(2 * quote, quote) if quote else name).lower()


def may_be_undone(event: bytes | memoryview) -> bool:
    """Whether a transaction that begins with this event may have rows that were undone.

    Transactions of MySQL 8.0 and later have no undone rows. MySQL 5.7 writes undone rows only in a transaction
    with a statement, which the GTID event indicates (``FLAG_MAY_HAVE_SBR``). Every transaction of MariaDB, and
    every transaction without a GTID event, may have undone rows.
    """
    kind = event[4]
    if kind in (EventType.GTID, EventType.ANONYMOUS_GTID):
        return bool(event[HEADER_SIZE] & _MAY_HAVE_STATEMENTS)
    return kind != EventType.GTID_TAGGED


_MAY_HAVE_STATEMENTS = 1


class UndoneRows:
    """The numbers of the rows events that were undone, determined from the statements between the events."""

    def __init__(self) -> None:
        self.count = 0
        """The number of rows events so far."""
        self.is_known = True
        """Whether the statements set every savepoint to which a statement rolled back."""
        self._began = 0
        self._savepoints: dict[str, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []

    def begin(self) -> None:
        """Begin another transaction."""
        self._began = self.count
        self._savepoints.clear()

    def statement(self, sql: str) -> bool:
        """Record the effect of a statement; return whether the statement ends a transaction."""
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
