"""The captured databases and tables on a server, against which filters are checked.

Invariant: the server is queried only if it has a filter; tables that the account may not see are
covered only by the expressions.
"""

from __future__ import annotations

from dataclasses import replace

from pymysql.cursors import Cursor

from connectors.mysql.server.database_filters import SYSTEM, Captured, Captures
from connectors.mysql.server.facts import ServerFacts


def captured_there(cursor: Cursor, include: str, captures: Captures) -> Captured:
    """The captured databases and tables of a server."""
    cursor.execute("SELECT table_schema, table_name FROM information_schema.tables")
    tables = frozenset((str(row[0]), str(row[1])) for row in cursor.fetchall())
    cursor.execute("SHOW DATABASES")
    databases = {str(row[0]) for row in cursor.fetchall()}
    return Captured(
        include=include,
        captures=captures,
        tables=frozenset(one for one in tables if one[0] not in SYSTEM),
        databases=frozenset(databases - {*SYSTEM}),
    )


def with_excluded_databases(
    facts: ServerFacts, cursor: Cursor, include: str, captures: Captures
) -> ServerFacts:
    """The facts with the captured databases that the server's binlog excludes."""
    filters = facts.binlog_filters
    if not filters:
        return facts
    captured = captured_there(cursor, include, captures)
    captured = replace(captured, databases=captured.databases | {*filters.ignore})
    return replace(facts, excluded=tuple(filters.excluded(captured.known)))
