"""The filters by which a server leaves out changes when it replicates.

They are asked for in every place where a version keeps them: the status of its channels, the tables of
``performance_schema``, and MariaDB's variables. A server that replicates no more keeps its global filters.

Invariant: what an account may not see counts as no filter; what was left out shows in the rows that are
compared.
"""

from __future__ import annotations

import pymysql
from pymysql.cursors import Cursor

from connectors.mysql.server.database_filters import ReplicationFilter
from connectors.mysql.server.facts import ServerFacts

_STATEMENTS = ("SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS")
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
    """All that a server says of itself, each once."""
    # Once a filter was taken back, performance_schema may give the others wrong names; the status does not.
    of_channels = _of_channels(cursor)
    found = [
        *(_of_schema(cursor) if of_channels is None else of_channels),
        *_of_variables(facts),
    ]
    return list(dict.fromkeys(found))


def _of_channels(cursor: Cursor) -> list[ReplicationFilter] | None:
    """Those of the channels; None where the server has no channel."""
    for statement in _STATEMENTS:
        rows = _asked(cursor, statement)
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
    for asked in _TABLES:
        rows += _asked(cursor, asked) or []
    return [
        _rule(str(row["filter_name"]), rule)
        for row in rows
        for rule in _split(row["filter_rule"], whole=row["filter_name"] == "REPLICATE_REWRITE_DB")
    ]


def _of_variables(facts: ServerFacts) -> list[ReplicationFilter]:
    """MariaDB's, and what makes any server pass over what it cannot apply."""
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


def _asked(cursor: Cursor, statement: str) -> list[dict[str, object]] | None:
    """The rows of a statement; None where the server does not know it or does not permit it."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _NOT_KNOWN:
            return None
        raise
    names = [column[0].lower() for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
