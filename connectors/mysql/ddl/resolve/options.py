"""A table's options after later statements.

Invariant: the new value of an option replaces the old value; other options stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mysql.ddl.definition import Server, Session, Table
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed
from connectors.mysql.ddl.grammar.options import table_options
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement import NO_OPTIONS, TableOptions

_VERSIONED = "WITH SYSTEM VERSIONING"
_IN_MEMORY = {"MEMORY", "HEAP"}
_TRUE = {"1", "YES", "ON", "TRUE"}


def text_of(options: TableOptions) -> str:
    """A table's options as text."""
    return _text(dict(options.texts), options.versioned)


def merged(text: str, changes: Sequence[TableOptions], versioned: bool | None = None) -> str:
    """Return the text of a table's options after changes; ``versioned`` turns system versioning on or off."""
    new = {name: value for options in changes for name, value in options.texts}
    if not new and versioned is None:
        return text
    old = _parsed(text)
    return _text({**dict(old.texts), **new}, old.versioned if versioned is None else versioned)


def is_sequence(table: Table | None) -> bool:
    """Return whether a table is a MariaDB sequence, whose rows are not user data."""
    if table is None or "SEQUENCE" not in table.options.upper():
        return False
    sequence = dict(_parsed(table.options).texts).get("SEQUENCE", "")
    return sequence.upper() in _TRUE


def is_in_memory(table: Table | None) -> bool:
    """Whether a table's rows are in memory only, so that a restart of the server empties it."""
    if table is None or "ENGINE" not in table.options.upper():
        return False
    engine = dict(_parsed(table.options).texts).get("ENGINE", "")
    return engine.strip("'\"`").upper() in _IN_MEMORY


def option(table: Table, name: str) -> str:
    """The text of an option that is a string; empty if the table does not have it."""
    if name not in table.options:
        return ""
    value = dict(_parsed(table.options).texts).get(name, "")
    server, session = Server(version=(99, 0, 0)), Session()
    try:
        return Reader(lexed(value, server, session), server, session).string()
    except GrammarFault:
        return ""


def _text(options: dict[str, str], versioned: bool) -> str:
    words = [f"{name}={value}" for name, value in options.items()]
    return " ".join([*words, _VERSIONED] if versioned else words)


def _parsed(text: str) -> TableOptions:
    server, session = Server(version=(99, 0, 0)), Session()
    try:
        return table_options(Reader(lexed(text, server, session), server, session))
    except GrammarFault:
        return NO_OPTIONS


def table_comment(table: Table) -> str | None:
    """A table's comment; None without one."""
    return option(table, "COMMENT") or None
