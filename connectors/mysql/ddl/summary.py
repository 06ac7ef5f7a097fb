"""What a statement is and which tables it touches, without a look at any table.

The law: this never fails; what cannot be read is told by its first words and the names that stand where a
table's would.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Server, Session, TableName
from connectors.mysql.ddl.fallback import guessed_type, named_tables
from connectors.mysql.ddl.grammar.statements import read
from connectors.mysql.ddl.statement.statement import (
    CreateTable,
    DropDatabase,
    NoTable,
    Statement,
    actions_of,
    tables_of,
)
from connectors.mysql.ddl.statement.table_ref import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A statement in a few words."""

    type: str
    """Such as ``ALTER TABLE``, ``DROP DATABASE``, ``CREATE VIEW``, ``INSERT``."""
    actions: tuple[str, ...] = ()
    """What an ALTER TABLE does, such as ``ADD COLUMN``."""
    tables: frozenset[TableName] = frozenset()
    """Those it touches; all of them only if ``understood``."""
    database: str | None = None
    """The one it drops."""
    changes_nothing: bool = False
    """It is of no kind that makes, changes or removes a table or database."""
    understood: bool = True


def summary(sql: str, server: Server, session: Session) -> Summary:
    """What a statement is."""
    try:
        statement = read(sql, server, session)
    except ValueError:
        return Summary(
            type=guessed_type(sql),
            tables=guessed(sql, server, session),
            understood=False,
        )
    return Summary(
        type=statement.type,
        actions=actions_of(statement),
        tables=touched_by(statement, server, session),
        database=statement.name if isinstance(statement, DropDatabase) else None,
        changes_nothing=isinstance(statement, NoTable)
        or (isinstance(statement, CreateTable) and statement.temporary),
    )


def touched(sql: str, server: Server, session: Session) -> frozenset[TableName]:
    """The tables that a statement touches, as far as can be told."""
    return summary(sql, server, session).tables


def touched_by(statement: Statement, server: Server, session: Session) -> frozenset[TableName]:
    """The tables that a statement touches; one without a database, where none is selected, is left out."""
    return _full(list(tables_of(statement)), server, session)


def guessed(sql: str, server: Server, session: Session) -> frozenset[TableName]:
    """The tables that a statement seems to touch that was not understood."""
    return _full(named_tables(sql, server, session), server, session)


def _full(refs: list[TableRef], server: Server, session: Session) -> frozenset[TableName]:
    lower = server.lower_case_table_names == 1
    return frozenset(
        (lowered(database), lowered(name)) if lower else (database, name)
        for database, name in ((ref[0] or session.database, ref[1]) for ref in refs)
        if database
    )
