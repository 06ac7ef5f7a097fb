"""Statements of a destination with masked columns, as they may be seen outside of the decoders.

Invariant: a statement keeps its literals only if all tables that it names are published without a mask, and it
contains no query, so that it only defines tables.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.ddl.hidden_literals import table_without_literals, without_literals
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from tables.rules.routes.routes import Routes

_OF_TABLES = frozenset(
    {
        *("CREATE TABLE", "ALTER TABLE", "DROP TABLE", "RENAME TABLE", "TRUNCATE TABLE"),
        *("CREATE INDEX", "DROP INDEX"),
    }
)


def hidden(statement: ParsedStatement, routes: Routes) -> ParsedStatement:
    """Return a statement with a text that may be stored and published; its effect is the same."""
    if not routes.masks_any or _is_harmless(statement, routes):
        return statement
    text = without_literals(statement.text, statement.server, statement.session)
    return replace(statement, text=f"{statement.type} …" if text is None else text)


def hidden_query(query: Query, routes: Routes, *, server: Server, charsets: Charsets) -> Query:
    """Return the statement of an event with a text that may be stored and published."""
    if not routes.masks_any:
        return query
    statement = parsed(query, server=server, charsets=charsets)
    return replace(query, sql=hidden(statement, routes).text)


def parsed(query: Query, *, server: Server, charsets: Charsets) -> ParsedStatement:
    """Return the statement of an event, parsed."""
    session = session_of(
        query.status,
        database=query.database,
        thread=query.thread,
        charsets=charsets,
        mariadb=server.mariadb,
    )
    return parse_statement(query.sql, server, session)


def hidden_table(name: TableName, table: Table, routes: Routes) -> Table:
    """Return a definition as it may be stored: without literals, unless its table is published unmasked."""
    if not routes.masks_any:
        return table
    route = routes.of(name)
    return table if route is not None and not route.masks else table_without_literals(table)


def _is_harmless(statement: ParsedStatement, routes: Routes) -> bool:
    tables = statement.tables
    if not statement.understood or not tables or statement.type not in _OF_TABLES:
        return False
    found = [routes.of(name) for name in tables]
    return all(route is not None and not route.masks for route in found) and not _has_query(
        statement
    )


def _has_query(statement: ParsedStatement) -> bool:
    return "SELECT" in statement.text.upper() or "VALUES ROW" in statement.text.upper()
