"""The session variables that every connection sets and reads back, whatever the server's defaults are.

A new session begins with the server's global values, as changed by its ``init_connect``. An answer that depends
on such a variable could be truncated, rounded, or of other transactions, and would look like a right answer.

Invariant: no statement is executed before all of these variables have the values stated here. If the server
lacks a variable, it lacks the variable's behaviour. If it denies setting a variable, the value has to be right
already.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import pymysql
from pymysql.charset import charset_by_name
from pymysql.constants import ER, SERVER_STATUS

from connectors.errors import SourceRefused

Value = int | str
"""A variable's value, as it is set and as it is read back; DEFAULT is set as SQL's keyword."""

_NO_LIMIT = 2**64 - 1
DEFAULT = "DEFAULT"

_EVERYWHERE: Mapping[str, Value] = {
    # Each SELECT sees what is committed when it begins, and keeps no view and no lock afterwards.
    "autocommit": 1,
    "completion_type": "NO_CHAIN",
    # Other modes mean names in double quotes, other operators, padded CHAR values, errors for stored dates.
    "sql_mode": "",
    # With other values, a result may end early, or a SELECT may be refused for its size.
    "sql_select_limit": _NO_LIMIT,
    "max_join_size": _NO_LIMIT,
    "sql_big_selects": 1,
    "group_concat_max_len": 1 << 20,
    # With less, a sort by the server leaves rows whose long keys begin alike in no order.
    "max_sort_length": 1 << 15,
    "sort_buffer_size": 1 << 21,
    "sql_quote_show_create": 1,
    "sql_auto_is_null": 0,
    "div_precision_increment": 4,
    # For the writes of heartbeats and of a central schema store.
    "sql_safe_updates": 0,
    "unique_checks": 1,
    "foreign_key_checks": 1,
    # Shorter than the wait for an answer.
    "lock_wait_timeout": 10,
    "innodb_lock_wait_timeout": 10,
    # A connection stays open while it waits for its turn, and while it reads rows slowly.
    "wait_timeout": 28_800,
    "interactive_timeout": 28_800,
    "net_read_timeout": 60,
    "net_write_timeout": 60,
}
_WARNINGS: Mapping[str, Value] = {"max_error_count": 65_535}
"""A warning shows that a list of tables is incomplete, so the server has to keep this warning."""
_MARIADB: Mapping[str, Value] = {
    **_WARNINGS,
    "max_statement_time": 0,
    "old_mode": "",
    "system_versioning_asof": DEFAULT,
    "idle_transaction_timeout": 0,
    "idle_readonly_transaction_timeout": 0,
    "idle_write_transaction_timeout": 0,
}
_MYSQL: tuple[tuple[tuple[int, ...], Mapping[str, Value]], ...] = (
    ((5, 7, 8), {"max_execution_time": 0}),
    ((8, 0, 3), {"information_schema_stats_expiry": 0}),
    # Otherwise, a primary key that the server generates is in the binlog, but not in the list of columns.
    ((8, 0, 30), {"show_gipk_in_create_table_and_information_schema": 1}),
)
"""Additional variables of MySQL, each group with its first version."""
_NEVER_CUT_SHORT = (8, 0)
"""Since this version, MySQL omits no table from a list, and denies setting max_error_count to most accounts."""
_NEW_NAME_MYSQL, _NEW_NAME_MARIADB = (5, 7, 20), (11, 1)
"""Since these versions ``transaction_isolation`` and ``transaction_read_only`` exist."""
_OLDEST_READ_ONLY = (5, 6, 5)
_MISSING_OR_DENIED = {ER.UNKNOWN_SYSTEM_VARIABLE, ER.SPECIFIC_ACCESS_DENIED_ERROR}


def session_variables(server_info: str, *, time_zone: str, isolation: str) -> dict[str, Value]:
    """Return the variables of a session with a server, by the version in the server's greeting.

    ``isolation``: for example ``READ-COMMITTED``.
    """
    is_mariadb = "mariadb" in server_info.lower()
    # An older MariaDB greets with a version of MySQL before its own.
    text = server_info.removeprefix("5.5.5-") if is_mariadb else server_info
    version = tuple(int(part) for part in re.findall(r"\d+", text)[:3])
    found = {**_EVERYWHERE, "time_zone": time_zone}
    if is_mariadb:
        found |= _MARIADB
    else:
        for since, more in _MYSQL:
            found |= more if version >= since else {}
        found |= _WARNINGS if version < _NEVER_CUT_SHORT else {}
    is_new = version >= (_NEW_NAME_MARIADB if is_mariadb else _NEW_NAME_MYSQL)
    name = "transaction" if is_new else "tx"
    found[f"{name}_isolation"] = isolation
    if version >= _OLDEST_READ_ONLY:
        found[f"{name}_read_only"] = 0
    return found


def begin_session(connection: Any, wanted: Mapping[str, Value], source: object) -> None:
    """Set the variables of a new session; raise SourceRefused if they do not have these values afterwards.

    The caller handles PyMySQL's own errors.
    """
    try:
        _execute(connection, _set(wanted))
    except pymysql.MySQLError as error:
        if error.args[0] not in _MISSING_OR_DENIED:
            raise
        wanted = _set_singly(connection, wanted)
    if connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
        # An init_connect began a transaction; each SELECT would read in the view of this transaction.
        _execute(connection, "ROLLBACK")
    ((*found,),) = _execute(connection, _read(wanted))
    wrong = [
        f"{name} is {as_text(value)!r} in place of {wanted[name]!r}"
        for name, value in zip(wanted, found, strict=True)
        if not _is_equal(as_text(value), wanted[name])
    ]
    if wrong:
        raise SourceRefused(
            f"a session there does not keep what it is set to: {'; '.join(wrong)}",
            source=source,
            remedy="Set these as global variables of the server, and look for a proxy between that replaces "
            "them; MySQL may also demand GRANT SESSION_VARIABLES_ADMIN ON *.* for the account.",
        )


def _set(wanted: Mapping[str, Value]) -> str:
    return "SET SESSION " + ", ".join(f"{name} = {_literal(one)}" for name, one in wanted.items())


def _set_singly(connection: Any, wanted: Mapping[str, Value]) -> dict[str, Value]:
    """Set each variable that exists and may be set; return the variables that exist."""
    found = dict[str, Value]()
    for name, value in wanted.items():
        try:
            _execute(connection, _set({name: value}))
        except pymysql.MySQLError as error:
            if error.args[0] == ER.UNKNOWN_SYSTEM_VARIABLE:
                continue
            if error.args[0] not in _MISSING_OR_DENIED:
                raise
        found[name] = value
    return found


def _read(wanted: Mapping[str, Value]) -> str:
    return "SELECT " + ", ".join(f"@@SESSION.{name}" for name in wanted)


def _execute(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def _literal(value: Value) -> str:
    if isinstance(value, int) or value == DEFAULT:
        return str(value)
    # Valid in any sql_mode, because no value has a backslash.
    return "'" + value.replace("'", "''") + "'"


def as_text(value: Any) -> str:
    """Return a connection's value as text, also from a connection that returns bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _is_equal(found: str, wanted: Value) -> bool:
    if isinstance(wanted, str):
        # A server may write the name of a time zone in its own way.
        return found.casefold() == wanted.casefold()
    with suppress(InvalidOperation):
        return Decimal(found) == wanted
    return found.upper() == ("ON" if wanted else "OFF")


_OTHER_NAMES = {
    "utf8": "utf8mb4",
    "utf": "utf8mb4",
    "unicode11utf8": "utf8mb4",
    "usascii": "ascii",
    "iso646us": "ascii",
    "iso88591": "latin1",
    "cp1252": "latin1",
    "windows1252": "latin1",
    "iso88592": "latin2",
    "iso88597": "greek",
    "iso88598": "hebrew",
    "iso88599": "latin5",
    "iso885913": "latin7",
    "windows1250": "cp1250",
    "windows1251": "cp1251",
    "windows1256": "cp1256",
    "windows1257": "cp1257",
    "ibm850": "cp850",
    "ibm852": "cp852",
    "ibm866": "cp866",
    "cp936": "gbk",
    "ms936": "gbk",
    "windows936": "gbk",
    "euccn": "gb2312",
    "big5hkscs": "big5",
    "shiftjis": "sjis",
    "ms932": "cp932",
    "windows31j": "cp932",
    "eucjp": "ujis",
    "koi8": "koi8r",
}


def connection_charset(name: str) -> str | None:
    """MySQL's name of a character set usable for connections; None for other names.

    ``name``: as MySQL or Java has it, and so Canal's files.
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    charset = charset_by_name(_OTHER_NAMES.get(plain, plain))
    if charset is None or charset.name == "binary":
        return None
    try:
        codecs.lookup(charset.encoding)
    except LookupError:
        return None
    return str(charset.name)
