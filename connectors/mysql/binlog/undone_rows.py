"""Statements that change or undo more than a transaction's rows show.

Invariant: a change that is written as a statement, rows that were undone, and a statement that is
not understood are reported or refused; none is ignored.
"""

from __future__ import annotations

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.changes import Changes, Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind, shortened, words

_UNDONE = {
    Kind.SAVEPOINT: "a ROLLBACK TO SAVEPOINT after rows were written",
    Kind.ROLLBACK: "a transaction with rows that ends in ROLLBACK: which rows remain is not known",
}


def report(
    kind: Kind, query: Query, transaction: Transaction, changes: Changes, rows: tuple[bool, bool]
) -> None:
    """Report such a statement; ``rows``: whether the transaction has rows, and has any in earlier chunks."""
    if kind is Kind.CHANGE:
        changes.change(transaction, query)
    if rows[0] and kind in _UNDONE and words(query.sql, 1) == ["ROLLBACK"]:
        changes.undone(_UNDONE[kind], earlier=rows[1])
    if kind is Kind.UNKNOWN:
        raise UnsupportedEvent(f"the statement {shortened(query.sql)}", database=query.database)
