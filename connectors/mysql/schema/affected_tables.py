"""The tables that a statement may have changed, determined without looking up any table.

Invariant: the result may contain an unchanged table, but lacks no changed table. For a statement that
is not understood, it contains every table whose name occurs anywhere in the text, if the name of the
table's database occurs there too, or is the default database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from connectors.mysql.binlog import query_session
from connectors.mysql.binlog.events import Query
from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Server, Session, TableName
from connectors.mysql.ddl.grammar.lexer import named
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement


def parsed(query: Query, server: Server) -> ParsedStatement:
    """Parse a statement of the binlog."""
    return parse_statement(query.sql, server, session_for(query))


def session_for(query: Query) -> Session:
    """The session settings on which a statement's names depend."""
    return Session(database=query.database, sql_mode=query_session.of_number(query.sql_mode))


def affected_tables(
    query: Query, statement: ParsedStatement, names: Iterable[TableName]
) -> set[TableName]:
    """Return the tables that a statement may have changed: tables it names, and tables among ``names``."""
    found = set(statement.tables)
    if statement.database is not None:
        found.update(name for name in names if lowered(name[0]) == lowered(statement.database))
    if not statement.understood:
        found |= mentioned(query, names)
    return found


def sets_defaults(statement: ParsedStatement) -> bool:
    """Whether a statement may change the defaults of a database's later tables."""
    return not statement.understood or statement.type.endswith(("DATABASE", "SCHEMA"))


def mentioned(query: Query, names: Iterable[TableName]) -> set[TableName]:
    """The tables whose names occur in a statement."""
    text, default = lowered(named(query.sql)), lowered(query.database or "")
    return {
        name
        for name in names
        if _occurs_in(name[1], text) and (lowered(name[0]) == default or _occurs_in(name[0], text))
    }


def _occurs_in(name: str, text: str) -> bool:
    """Whether a name occurs in a text, plain or quoted in either way."""
    plain = lowered(name)
    forms: Collection[str] = {plain, plain.replace("`", "``"), plain.replace('"', '""')}
    return any(form in text for form in forms)
