"""A parsed statement: its text, its syntax tree or the fault in it, and the tables that it names.

It is created once, where a text is read, and passed on to the catalog, the schema history, and all
code that needs its renames or affected tables.

Invariant: parsing never fails; for a statement that is not understood, the first words are known,
and the names in the positions of table names. No table is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Execution, Server, Session, TableName
from connectors.mysql.ddl.fallback_tables import guessed_type, named_tables, tables_by_pattern
from connectors.mysql.ddl.grammar.lexer import lexed
from connectors.mysql.ddl.grammar.statements import other_statement, statement
from connectors.mysql.ddl.grammar.token_reader import Reader
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
class ParsedStatement:
    """A statement as interpreted by a server and a session."""

    text: str
    server: Server
    session: Session
    tree: Statement | None
    """None if the text is not understood."""
    fault: str = ""
    """The reason why it is not understood."""
    guessed: tuple[TableRef, ...] = ()
    """The likely table names of a text that is not understood."""
    execution: Execution | None = None
    """None if it is not known."""

    @property
    def understood(self) -> bool:
        """Whether all of its text is understood."""
        return self.tree is not None

    @property
    def type(self) -> str:
        """The type, such as ``ALTER TABLE``, ``DROP DATABASE``, ``CREATE VIEW``, ``INSERT``."""
        return guessed_type(self.text) if self.tree is None else self.tree.type

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions of an ALTER TABLE, such as ``ADD COLUMN``."""
        return () if self.tree is None else actions_of(self.tree)

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables it touches; all of them only if ``understood``. A table without a database
        is omitted if none is selected."""
        return self.full(self.guessed if self.tree is None else tables_of(self.tree))

    @property
    def database(self) -> str | None:
        """The database it drops."""
        return self.tree.name if isinstance(self.tree, DropDatabase) else None

    @property
    def changes_nothing(self) -> bool:
        """Whether it is of no kind that creates, changes or removes a table or database."""
        tree = self.tree
        return isinstance(tree, NoTable) or (isinstance(tree, CreateTable) and tree.temporary)

    def full(self, refs: Iterable[TableRef]) -> frozenset[TableName]:
        """The full names of tables; one without a database is omitted if none is selected."""
        lower = self.server.lower_case_table_names == 1
        return frozenset(
            (lowered(database), lowered(name)) if lower else (database, name)
            for database, name in ((ref[0] or self.session.database, ref[1]) for ref in refs)
            if database
        )


def parse_statement(sql: str, server: Server, session: Session) -> ParsedStatement:
    """Parse one statement."""
    other = other_statement(sql)
    made = partial(ParsedStatement, text=sql, server=server, session=session)
    if other is not None:
        return made(tree=other)
    # All faults of lexer and grammar are ValueErrors, like Python's error for a number of 5000 digits.
    try:
        tokens = lexed(sql, server, session)
    except (ValueError, RecursionError) as fault:
        return made(tree=None, fault=str(fault), guessed=tuple(tables_by_pattern(sql)))
    try:
        return made(tree=statement(Reader(tokens, server, session)))
    except (ValueError, RecursionError) as fault:
        guessed = named_tables(Reader(tokens, server, session))
        return made(tree=None, fault=str(fault), guessed=tuple(guessed))
