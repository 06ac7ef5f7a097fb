"""The filters by which a server excludes changes from its replication.

Depending on the version, the filters are in the status of the server's channels, in tables of
``performance_schema``, or in MariaDB's variables; all of these are read. A server that no longer
replicates keeps its global filters.

Invariant: a filter that the account may not see counts as absent; the changes that it excludes are
found when rows are compared.
"""

from __future__ import annotations

import pymysql
from pymysql.cursors import Cursor

from connectors.mysql.server.database_filters import ReplicationFilter
from connectors.mysql.server.facts import REPLICA_STATUS, ServerFacts

_RULES = (
    "do_db", "ignore_db", "do_table", "ignore_table", "wild_do_table", "wild_ignore_table", "rewrite_db",
    "ignore_server_ids",
)  # fmt: skip
_TABLES = (
    "SELECT filter_name, filter_rule FROM performance_schema.replication_applier_filters",
    "SELECT filter_name, filter_rule FROM performance_schema.replication_applier_global_filters",
)
_SKIPS = ("replica_skip_errors", "slave_skip_errors")
_NOT_KNOWN = {
    pymysql.constants.ER.PARSE_ERROR,
    pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR,
    pymysql.constants.ER.TABLEACCESS_DENIED_ERROR,
    pymysql.constants.ER.NO_SUCH_TABLE,
    pymysql.constants.ER.BAD_DB_ERROR,
}


def replication_filters(cursor: Cursor, facts: ServerFacts) -> list[ReplicationFilter]:
    """All replication filters of a server, each once."""
    # After a filter is removed, performance_schema may show wrong names for the other filters; the
    # status does not.
    of_channels = _of_channels(cursor)
    found = [
        *(_of_schema(cursor) if of_channels is None else of_channels),
        *_of_variables(facts),
    ]
    return list(dict.fromkeys(found))


def _of_channels(cursor: Cursor) -> list[ReplicationFilter] | None:
    """The filters of the channels; None if the server has no channel."""
    for statement in REPLICA_STATUS:
        rows = _rows(cursor, statement)
        if rows is None:
            continue
        return (
            None
            if not rows
            else [
                _rule(f"REPLICATE_{name.upper()}", rule)
                for row in rows
                for name in _RULES
                for rule in _split(row.get(f"replicate_{name}"), whole=name == "rewrite_db")
            ]
        )
    return None


def _of_schema(cursor: Cursor) -> list[ReplicationFilter]:
    rows: list[dict[str, object]] = []
    for statement in _TABLES:
        rows += _rows(cursor, statement) or []
    return [
        _rule(str(row["filter_name"]), rule)
        for row in rows
        for rule in _split(row["filter_rule"], whole=row["filter_name"] == "REPLICATE_REWRITE_DB")
    ]


def _of_variables(facts: ServerFacts) -> list[ReplicationFilter]:
    """Return MariaDB's filters, and any server's variables by which it skips events that it cannot apply."""
    found = [
        _rule(f"REPLICATE_{name.upper()}", rule)
        for name in _RULES
        for rule in _split(facts.variables.get(f"replicate_{name}"), whole=name == "rewrite_db")
    ]
    for name in _SKIPS:
        value = facts.variables.get(name, "")
        if value.upper() not in ("", "OFF"):
            return [*found, ReplicationFilter(name, value)]
    return found


def _rule(name: str, rule: str) -> ReplicationFilter:
    return ReplicationFilter(name, rule.replace("`", ""))


def _split(value: object, *, whole: bool) -> list[str]:
    text = str(value or "").strip()
    if whole:
        return [text] if text else []
    return [one.strip() for one in text.split(",") if one.strip()]


def _rows(cursor: Cursor, statement: str) -> list[dict[str, object]] | None:
    """The rows of a statement; None if the server does not support or permit it."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _NOT_KNOWN:
            return None
        raise
    names = [column[0].lower() for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
