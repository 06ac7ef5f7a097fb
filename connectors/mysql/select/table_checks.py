"""Whether a table's rows can be read: the checks before a reading, and MySQL's errors in it.

Invariant: an error that would prevent the read of any table is never an error of one table. The errors of a
table cannot be listed, because a generated column may fail in any way. So the errors of a server are listed,
and all other errors are the table's. An operator's condition that passes cannot widen or end the WHERE
clause into which it is inserted, because it is also a single expression by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pymysql
from pymysql.constants import ER

from connectors.errors import AqueductError, TableUnreadable, UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.select.chunk_query import chunk_query, quoted
from connectors.mysql.select.read_views import ROW_LOCKED
from connectors.mysql.select.selected_table import SESSION
from connectors.mysql.server.connection import SourceAddress, connected, translated

_CLIENT = range(2000, 3000)
"""PyMySQL's own errors, which concern the connection."""
_OF_SERVER = {
    ER.DISK_FULL, ER.OUTOFMEMORY, ER.OUT_OF_RESOURCES,
    ER.CON_COUNT_ERROR, ER.BAD_HOST_ERROR, ER.HANDSHAKE_ERROR, ER.HOST_IS_BLOCKED, ER.HOST_NOT_PRIVILEGED,
    ER.TOO_MANY_USER_CONNECTIONS, ER.USER_LIMIT_REACHED, ER.MAX_PREPARED_STMT_COUNT_REACHED,
    ER.ACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.MUST_CHANGE_PASSWORD,
    ER.OPTION_PREVENTS_STATEMENT, ER.UNKNOWN_SYSTEM_VARIABLE, ER.WRONG_VALUE_FOR_VAR, ER.PARSE_ERROR,
    # Galera's error for a node that is not ready.
    ER.UNKNOWN_COM_ERROR,
    ER.SERVER_SHUTDOWN, ER.NORMAL_SHUTDOWN, ER.SHUTDOWN_COMPLETE, ER.ABORTING_CONNECTION,
    ER.NEW_ABORTING_CONNECTION, *range(ER.NET_READ_ERROR_FROM_PIPE, ER.NET_WRITE_INTERRUPTED + 1),
    # A session was killed (MariaDB, MySQL), or was idle for too long; the server is offline, or unavailable.
    1927, 3169, 4031, 3032, 3168,
}  # fmt: skip
_INTERRUPTED = {ER.QUERY_INTERRUPTED, ER.QUERY_TIMEOUT, ER.FILSORT_ABORT, 1969}
"""A statement was killed, or took longer than a limit of the server allows; the last is MariaDB's."""
_DENIED = {
    ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR,
}  # fmt: skip
_DAMAGED = {
    ER.CANT_OPEN_FILE, ER.FILE_NOT_FOUND, ER.GET_ERRNO, ER.NOT_FORM_FILE, ER.NOT_KEYFILE, ER.OLD_KEYFILE,
    ER.CRASHED_ON_USAGE, ER.CRASHED_ON_REPAIR,
    # An index is corrupt; a tablespace is missing or discarded; a table is corrupt, or its engine lacks it.
    1712, 1812, 1814, 1877, 1932,
    # A storage engine's own errors, such as 145: a table was marked as crashed.
    *range(120, 200),
}  # fmt: skip

UNLOCK = (
    "End the session that holds the lock (SHOW PROCESSLIST and sys.schema_table_lock_waits show it), or wait "
    "until its transaction, ALTER TABLE or LOCK TABLES has ended."
)
_KILLED = (
    "Find out what kills statements, or raise max_execution_time (at MariaDB max_statement_time)."
)
_CHECK = "Run CHECK TABLE on it; repair or restore it as the server's error log advises."
_OTHER = (
    "Run a SELECT of all its columns as the account of source.user, and remove what makes it fail."
)


def error_of_read(
    error: pymysql.MySQLError, name: TableName, address: SourceAddress
) -> AqueductError:
    """Return Aqueduct's error for an error of PyMySQL in a statement that reads a table."""
    code = error.args[0] if error.args else None
    if not isinstance(code, int) or not concerns_table(code):
        return translated(error, address)
    return TableUnreadable(
        text_of(error),
        table=".".join(name),
        source=address,
        remedy=_remedy(code, name, address),
    )


def text_of(error: pymysql.MySQLError) -> str:
    """Return the server's text with its number."""
    code, *text = error.args
    return f"{text[0] if text else error} (error {code})"


def is_interrupted(error: pymysql.MySQLError) -> bool:
    """Return whether a statement was killed or took too long, so that it may succeed if it is repeated."""
    return bool(error.args) and error.args[0] in _INTERRUPTED


def concerns_table(code: int) -> bool:
    """Return whether an error of a statement that reads a table concerns only that table."""
    return code > 0 and code not in _CLIENT and code not in _OF_SERVER


def _remedy(code: int, name: TableName, address: SourceAddress) -> str:
    if code in ROW_LOCKED:
        return UNLOCK
    if code in _INTERRUPTED:
        return _KILLED
    if code in _DENIED:
        return (
            f"Run GRANT SELECT ON {'.'.join(map(quoted, name))} TO the account of {address.user}."
        )
    return _CHECK if code in _DAMAGED else _OTHER


WITHOUT_TABLE = {1051, 1054, 1146, 1049}
"""Errors of a SELECT that was built from an older definition: no such table, column or database."""
_WITHOUT_VALUES = {
    *WITHOUT_TABLE, ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.LOCK_WAIT_TIMEOUT, 3572,
    ER.QUERY_INTERRUPTED, ER.QUERY_TIMEOUT, 1969, ER.CRASHED_ON_USAGE, ER.NOT_KEYFILE,
}  # fmt: skip
"""Errors whose texts contain only names, and no values."""


def without_values(error: pymysql.MySQLError) -> pymysql.MySQLError:
    """Return the error without its text, if the text may quote a key or a row, as for a wrong date.

    Invariant: the text of a server's error is kept only if it contains only names.
    """
    code = error.args[0] if error.args else None
    if not isinstance(code, int) or code in _CLIENT or code in _WITHOUT_VALUES:
        return error
    return type(error)(code, "the server's text is hidden, since the table has masked columns")


def check_readable(address: SourceAddress, names: Iterable[TableName], where: str | None) -> None:
    """Check, with SELECTs that return no row, that each table can be read with the condition.

    Raise UsageError if the server cannot evaluate the condition; TableUnreadable, SourceRefused or SourceLost
    if a table cannot be read.
    """
    with connected(address) as cursor:
        # The later reading has the same session: another sql_mode may refuse a zero date in the condition.
        for statement in SESSION:
            cursor.execute(statement)
        for name in names:
            try:
                cursor.execute(_none_of(name))
            except pymysql.MySQLError as error:
                raise error_of_read(error, name, address) from error
            if where is None:
                continue
            try:
                check_condition(cursor, name, where)
            except pymysql.MySQLError as error:
                text = error.args[1] if error.args[1:] else str(error)
                raise UsageError(
                    f"the condition cannot be evaluated for {'.'.join(name)}: {text}"
                ) from error


def check_condition(cursor: Any, name: TableName, where: str) -> None:
    """Check a condition with SELECTs of no row; raise PyMySQL's error if the server cannot evaluate it."""
    # Without parentheses around the condition, its own parentheses have to be balanced.
    cursor.execute(_none_of(name).replace(" LIMIT 0", f" WHERE {where}\n LIMIT 0"))
    cursor.execute(_none_of(name, where))


def _none_of(name: TableName, where: str | None = None) -> str:
    return chunk_query(name, "1", key=(), after=None, limit=0, where=where)


def empty_tables(address: SourceAddress, names: Iterable[TableName]) -> set[TableName]:
    """Return the empty tables among ``names``; raise TableUnreadable, or an error of the source."""
    found = set()
    with connected(address) as cursor:
        for name in names:
            try:
                cursor.execute(chunk_query(name, "1", key=(), after=None, limit=1))
            except pymysql.MySQLError as error:
                raise error_of_read(error, name, address) from error
            if not cursor.fetchall():
                found.add(name)
    return found
