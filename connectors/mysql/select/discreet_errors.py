"""Errors of statements that have keys or rows in them, for tables with masked columns.

Invariant: the text of an error is kept only if it has names alone.
"""

from __future__ import annotations

import pymysql
from pymysql.constants import ER

WITHOUT_TABLE = {1051, 1054, 1146, 1049}
"""Errors of a SELECT that was made of an older definition: no such table, column or database."""
_WITHOUT_VALUES = {
    *WITHOUT_TABLE, ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.LOCK_WAIT_TIMEOUT, 3572,
    ER.QUERY_INTERRUPTED, ER.QUERY_TIMEOUT, 1969, ER.CRASHED_ON_USAGE, ER.NOT_KEYFILE,
}  # fmt: skip
"""Errors whose texts have names alone."""
_OF_CLIENT = range(2000, 3000)
"""PyMySQL's own."""


def without_values(error: pymysql.MySQLError) -> pymysql.MySQLError:
    """The error without a text that may quote a key or a row, as that of a wrong date does."""
    code = error.args[0] if error.args else None
    if not isinstance(code, int) or code in _OF_CLIENT or code in _WITHOUT_VALUES:
        return error
    return type(error)(code, "the server's text is hidden, since the table has masked columns")
