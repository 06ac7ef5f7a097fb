"""Statements that change or undo more than a transaction's rows show.

Servers write rows that were undone if their transaction has what cannot be undone, as MariaDB does beside a
DROP TEMPORARY TABLE. Rows of tables without transactions are never among them: in the row format, servers write
these at once, as transactions of their own (``use_trans_cache``, MySQL's sql/binlog.cc, MariaDB's sql/log.cc).

Invariant: a change that is written as a statement, rows that were undone, and a statement that is
not understood are reported or refused; none is ignored.
"""

from __future__ import annotations

import re

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.changes import Changes, Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import Kind, shortened, words

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
    elif rows[0] and kind in _UNDONE and words(query.sql, 1) == ["ROLLBACK"]:
        name = savepoint_of(query.sql) if kind is Kind.SAVEPOINT else None
        changes.undone(_UNDONE[kind], earlier=rows[1], savepoint=name)
    if kind is Kind.UNKNOWN:
        raise UnsupportedEvent(f"the statement {shortened(query.sql)}", database=query.database)


def savepoint_of(sql: str) -> str:
    """Return the name of a savepoint, as names of one are equal; the whole text if none is found."""
    found = _NAME.search(sql)
    return (found[1] if found is not None else sql).strip("`").lower()
