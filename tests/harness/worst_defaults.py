"""The worst that a server's administrator can give every new session: globally, or by init_connect.

Each is a variable on which an answer depends. A server is given those that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymysql
from pymysql.constants import ER

WORST: Mapping[str, str] = {
    # One view of the data for all SELECTs, of rows that are not committed, and no write.
    "autocommit": "0",
    "completion_type": "'RELEASE'",
    "transaction_isolation": "'READ-UNCOMMITTED'",
    "tx_isolation": "'READ-UNCOMMITTED'",
    "transaction_read_only": "1",
    "tx_read_only": "1",
    "system_versioning_asof": "'2001-01-01 00:00:00'",
    # Results that end early, or are refused.
    "sql_select_limit": "1",
    "max_join_size": "1",
    "sql_big_selects": "0",
    "max_execution_time": "1",
    "max_statement_time": "0.001",
    "group_concat_max_len": "4",
    "max_error_count": "0",
    "max_sort_length": "8",
    "sort_buffer_size": "32768",
    # Statements that are read, and values that are written, in another way.
    "sql_mode": (
        "'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'"
    ),
    "time_zone": "'+05:30'",
    "sql_quote_show_create": "0",
    "sql_auto_is_null": "1",
    "div_precision_increment": "0",
    "old_mode": "'NO_NULL_COLLATION_IDS'",
    "show_compatibility_56": "ON",
    "lc_time_names": "'ja_JP'",
    "default_week_format": "3",
    "character_set_collations": "'utf8mb4=utf8mb4_bin'",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    # Connections that end, and locks that nobody waits for.
    "wait_timeout": "1",
    "interactive_timeout": "1",
    "net_read_timeout": "1",
    "net_write_timeout": "1",
    "lock_wait_timeout": "1",
    "innodb_lock_wait_timeout": "1",
    "idle_transaction_timeout": "1",
    "idle_readonly_transaction_timeout": "1",
    "idle_write_transaction_timeout": "1",
    # What is not shown, or as it was a month ago.
    "show_gipk_in_create_table_and_information_schema": "0",
    "information_schema_stats_expiry": "31536000",
    # The tables and the writes of a central schema store.
    "sql_safe_updates": "1",
    "unique_checks": "0",
    "foreign_key_checks": "0",
    "default_storage_engine": "'MyISAM'",
    "explicit_defaults_for_timestamp": "0",
    "sql_require_primary_key": "1",
    "sql_generate_invisible_primary_key": "1",
}
FIRST = "SET NAMES latin1"
LAST = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
"""Around the variables in init_connect."""
_NOT_FOR_ALL = {
    ER.UNKNOWN_SYSTEM_VARIABLE,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ER.GLOBAL_VARIABLE,
    ER.INCORRECT_GLOBAL_LOCAL_VAR,
    ER.LOCAL_VARIABLE,
    ER.WRONG_VALUE_FOR_VAR,
}


def worst_of(server: Any) -> dict[str, str]:
    """The worst for a server: at MariaDB another dialect of SQL."""
    with server.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        is_mariadb = "MariaDB" in cursor.fetchall()[0][0]
    return {**WORST, **({"sql_mode": "'ORACLE,NO_BACKSLASH_ESCAPES'"} if is_mariadb else {})}


def set_globally(root: pymysql.Connection[Any]) -> list[str]:
    """Set the global variables; returns the names of those that the server has."""
    return [
        name
        for name, value in worst_of(root).items()
        if _succeeds(root, f"SET GLOBAL {name} = {value}")
    ]


def set_by_init_connect(
    root: pymysql.Connection[Any], account: pymysql.Connection[Any]
) -> list[str]:
    """Let each session of an account like this one begin with them; returns their names."""
    worst = worst_of(root)
    found = [
        name for name, value in worst.items() if _succeeds(account, f"SET SESSION {name} = {value}")
    ]
    each = "; ".join((FIRST, *(f"SET SESSION {name} = {worst[name]}" for name in found), LAST))
    with root.cursor() as cursor:
        cursor.execute("SET GLOBAL init_connect = %s", (each,))
    return found


def _succeeds(connection: pymysql.Connection[Any], statement: str) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] not in _NOT_FOR_ALL:
            raise
        return False
    return True
