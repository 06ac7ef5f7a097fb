"""A parsed statement: its text, its syntax tree or the fault in it, and the tables that it names.

A parsed statement is created once, where a text is read, and passed on to the catalog, the schema history,
and all code that needs the statement's renames or affected tables.

Invariant: parsing never fails, and looks up no table. Of a statement that the grammar does not support, the
first words are known, and the names in the positions of table names, rather too many than too few. Nothing
here determines a statement's effect on a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Execution, Server, Session, TableName, TableRef
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed
from connectors.mysql.ddl.grammar.statements import other_statement, statement
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement import (
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropDatabase,
    NoTable,
    RenameColumn,
    Statement,
    actions_of,
    tables_of,
)


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
    """None if the execution is not known."""

    @property
    def understood(self) -> bool:
        """Whether the whole text is understood."""
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
        """The tables that the statement touches; complete only if ``understood``.

        A table without a database is omitted if no database is selected.
        """
        return self.full(self.guessed if self.tree is None else tables_of(self.tree))

    @property
    def database(self) -> str | None:
        """The database that the statement drops; None for any other statement."""
        return self.tree.name if isinstance(self.tree, DropDatabase) else None

    @property
    def changes_nothing(self) -> bool:
        """Whether a statement of this kind changes no database, and no table other than a temporary table."""
        tree = self.tree
        return isinstance(tree, NoTable) or (isinstance(tree, CreateTable) and tree.temporary)

    def full(self, refs: Iterable[TableRef]) -> frozenset[TableName]:
        """The full names of tables; a table without a database is omitted if no database is selected."""
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


_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
_NAME = r"(?:`((?:[^`]|``)+)`|\"([^\"]+)\"|([\w$]+))"
_TABLE = re.compile(
    rf"\b(?:TABLES?|ON|TO|LIKE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_NAME}(?:\s*\.\s*{_NAME})?",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z_]+")
_EXECUTABLE = re.compile(r"/\*M?!\d*|\*/")
"""The delimiters of comments that some server executes."""
_FOLLOWED = frozenset({"TABLE", "TABLES", "TO", "AS"})


def guessed_type(sql: str) -> str:
    """The first two words."""
    return " ".join(_WORDS.findall(sql)[:2]).upper()


def named_tables(reader: Reader) -> list[TableRef]:
    """Return the likely table names in a statement; the reader is at its start."""
    while reader.take("SET", "STATEMENT"):
        while reader.key not in ("FOR", ""):
            reader.at += 1
        reader.take("FOR")
    verb = reader.take_one(_VERBS)
    return [] if verb is None else _names_after(reader, verb)


def _names_after(reader: Reader, verb: str) -> list[TableRef]:
    """The names after TABLE, or ON for an index; for RENAME and DROP, all of the list."""
    found: list[TableRef] = []
    wanted = set(_FOLLOWED)
    if verb in ("DROP", "RENAME"):
        wanted.add(",")
    if verb not in ("ALTER", "RENAME"):
        wanted.add("ON")
    if verb == "TRUNCATE" and reader.key != "TABLE":
        found += _one(reader)
    while reader.key != "":
        if reader.take_one(frozenset(wanted)):
            found += _one(reader)
            if verb in ("CREATE", "TRUNCATE"):
                break
        else:
            reader.at += 1
    return found


def _one(reader: Reader) -> list[TableRef]:
    _ = reader.take("IF", "NOT", "EXISTS") or reader.take("IF", "EXISTS")
    start = reader.at
    try:
        return [reader.table()]
    except GrammarFault:
        reader.at = start
        return []


def tables_by_pattern(sql: str) -> list[TableRef]:
    """Return the likely table names in a text that the lexer cannot split into tokens."""
    sql = _EXECUTABLE.sub(" ", sql)
    if (verb := _WORDS.search(sql)) is None or verb[0].upper() not in _VERBS:
        return []
    found: list[TableRef] = []
    for match in _TABLE.finditer(sql):
        first, second = ("".join(part or "" for part in match.groups()[n : n + 3]) for n in (0, 3))
        found.append((first, second) if second else (None, first))
    return found


def renamed_columns(statement: ParsedStatement) -> dict[TableName, dict[str, str]]:
    """Return the renamed columns of each table that the statement alters: new names by old names, as written.

    Invariant: only what the statement states is used; a statement that is not understood renames nothing.
    """
    tree = statement.tree
    if not isinstance(tree, AlterTable):
        return {}
    database, table = tree.name
    name = (database or statement.session.database or "", table)
    if statement.server.lower_case_table_names == 1:
        name = (lowered(name[0]), lowered(name[1]))
    return {name: dict(_names(tree))}


def _names(statement: AlterTable) -> Iterator[tuple[str, str]]:
    for action in statement.actions:
        if isinstance(action, RenameColumn):
            yield action.name, action.to
        elif isinstance(action, ChangeColumn) and action.name != action.spec.name:
            yield action.name, action.spec.name
