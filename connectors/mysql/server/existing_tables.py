"""Which captured databases and tables a server has, to judge filters by.

Invariant: asked only where there is a filter; what the account may not see is judged by the expressions alone.
"""

from __future__ import annotations

from dataclasses import replace

from pymysql.cursors import Cursor

from connectors.mysql.server.database_filters import Captured, Captures
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.server.system_databases import SYSTEM


def captured_there(cursor: Cursor, include: str, captures: Captures) -> Captured:
    """What is captured of what a server has."""
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


def with_left_out(
    facts: ServerFacts, cursor: Cursor, include: str, captures: Captures
) -> ServerFacts:
    """The facts with the captured databases that the server's binlog leaves out."""
    filters = facts.binlog_filters
    if not filters:
        return facts
    captured = captured_there(cursor, include, captures)
    captured = replace(captured, databases=captured.databases | {*filters.ignore})
    return replace(facts, left_out=tuple(filters.left_out(captured.known)))
