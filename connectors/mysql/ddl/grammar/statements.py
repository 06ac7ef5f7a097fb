"""Statement parser, and the classification of statements that are not understood.

Invariant: a statement that may concern a table is understood to its last token, or it is a fault;
one is harmless only by a rule that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.alter_table import alter_table
from connectors.mysql.ddl.grammar.create_table import create_table
from connectors.mysql.ddl.grammar.databases import alter_database, create_database, drop_database
from connectors.mysql.ddl.grammar.indexes import create_index, drop_index
from connectors.mysql.ddl.grammar.keys import skip_wait
from connectors.mysql.ddl.grammar.sequences import alter_sequence, create_sequence, drop_sequences
from connectors.mysql.ddl.grammar.token_reader import GrammarFault, Reader
from connectors.mysql.ddl.statement.statement import (
    DropTables,
    NoTable,
    RenameTables,
    Statement,
    TruncateTable,
)
from connectors.mysql.ddl.statement.table_ref import TableRef

_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
_READ = _VERBS | {"SET"}
_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)(?![\w$])")
_TABLES = frozenset({"TABLE", "TABLES"})
_DATABASES = frozenset({"DATABASE", "SCHEMA"})
_INDEX_KINDS = frozenset({"UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"})
_BEFORE_KIND = frozenset({"AGGREGATE", "SPATIAL", "MATERIALIZED", "DUALITY"})
_LINES = frozenset({"ONLINE", "OFFLINE"})
_NO_TABLES = frozenset(
    {
        "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "UNDO",
        "LOGFILE", "RESOURCE", "REFERENCE", "PACKAGE", "LIBRARY", "JSON", "INSTANCE", "PREPARE",
        "MASKING", "CATALOG",
    }
)  # fmt: skip


def other_statement(sql: str) -> NoTable | None:
    """A statement that is no DDL, recognized by its first word alone: statements of rows can
    have megabytes; None for any other."""
    if (word := _FIRST_WORD.match(sql)) and word[1].upper() not in _READ:
        return NoTable(type=word[1].upper())
    return None


def statement(reader: Reader) -> Statement:
    """Parse the single statement that begins here; raise GrammarFault if it is not understood."""
    while reader.take("SET", "STATEMENT"):
        _skip_to_for(reader)
    verb = reader.take_one(_VERBS)
    if verb is None:
        return NoTable(type=reader.key if reader.key.isalpha() else "")
    found = _READERS[verb](reader)
    if not isinstance(found, NoTable) and not reader.at_end():
        raise reader.fault("nothing more was expected")
    return found


def _skip_to_for(reader: Reader) -> None:
    """Skip MariaDB's SET STATEMENT name = value, … FOR."""
    while not reader.take("FOR"):
        if reader.key == lexer.END:
            raise reader.fault("expected FOR")
        if reader.key == "(":
            reader.skip_parentheses()
        else:
            reader.at += 1


# --- CREATE -----------------------------------------------------------------------------------------


def _create(reader: Reader) -> Statement:
    or_replace = reader.take("OR", "REPLACE")
    reader.take("EXTERNAL")
    temporary = reader.take("TEMPORARY")
    if reader.take("TABLE"):
        return create_table(reader, or_replace=or_replace, temporary=temporary)
    if reader.take_one(_DATABASES):
        return create_database(reader, or_replace=or_replace)
    reader.take_one(_LINES)
    kind = reader.key
    if kind in _INDEX_KINDS and reader.keys[reader.at + 1] == "INDEX":
        reader.at += 2
        return create_index(reader, kind)
    if reader.take("INDEX"):
        return create_index(reader, "KEY")
    if reader.take("SEQUENCE"):
        return create_sequence(reader, or_replace=or_replace, temporary=temporary)
    _skip_preamble(reader)
    return _no_table(reader, "CREATE")


def _skip_preamble(reader: Reader) -> None:
    """Skip the clauses before a view's, a routine's, a trigger's or an event's keyword."""
    while True:
        if reader.take("DEFINER"):
            reader.take("=")
            _skip_account(reader)
        elif reader.take("ALGORITHM"):
            reader.take("=")
            reader.name()
        elif reader.take("SQL", "SECURITY"):
            reader.name()
        elif not (reader.take_one(_BEFORE_KIND) or reader.take("JSON", "RELATIONAL")):
            return


def _skip_account(reader: Reader) -> None:
    reader.name_or_string()
    if reader.key == "(":
        reader.skip_parentheses()
    if reader.take("@"):
        reader.name_or_string()
        while reader.take(".") or reader.take("%") or reader.take("-"):
            if reader.is_name():
                reader.name()


def _no_table(reader: Reader, verb: str) -> NoTable:
    """A statement on neither a table nor a database, by the rules above."""
    word = reader.take_one(_NO_TABLES)
    if word is None:
        raise reader.fault(f"not known to {verb}")
    kind = f"{verb} {word}"
    if kind == "CREATE VIEW":
        if_not_exists = reader.take("IF", "NOT", "EXISTS")
        return NoTable(type=kind, made=(reader.table(),), if_not_exists=if_not_exists)
    if kind == "DROP VIEW":
        reader.take("IF", "EXISTS")
        return NoTable(type=kind, dropped=reader.listed(reader.table))
    return NoTable(type=kind)


# --- the other verbs --------------------------------------------------------------------------------


def _alter(reader: Reader) -> Statement:
    reader.take_one(_LINES)
    reader.take("IGNORE")
    if reader.take("TABLE"):
        return alter_table(reader)
    if reader.take_one(_DATABASES):
        return alter_database(reader)
    if reader.take("SEQUENCE"):
        return alter_sequence(reader)
    _skip_preamble(reader)
    return _no_table(reader, "ALTER")


def _drop(reader: Reader) -> Statement:
    temporary = reader.take("TEMPORARY")
    if reader.take_one(_TABLES):
        return _drop_tables(reader, temporary)
    if reader.take_one(_DATABASES):
        return drop_database(reader)
    if reader.take("SEQUENCE"):
        return drop_sequences(reader, temporary=temporary)
    reader.take_one(_LINES)
    if reader.take("INDEX"):
        return drop_index(reader)
    reader.take("SPATIAL")
    return _no_table(reader, "DROP")


def _drop_tables(reader: Reader, temporary: bool) -> DropTables:
    if_exists = reader.take("IF", "EXISTS")
    names = reader.listed(reader.table)
    skip_wait(reader)
    _ = reader.take("RESTRICT") or reader.take("CASCADE")
    return DropTables(names=names, temporary=temporary, if_exists=if_exists)


def _rename(reader: Reader) -> Statement:
    if not reader.take_one(_TABLES):
        return _no_table(reader, "RENAME")
    if_exists = reader.take("IF", "EXISTS")
    return RenameTables(pairs=reader.listed(lambda: _pair(reader)), if_exists=if_exists)


def _pair(reader: Reader) -> tuple[TableRef, TableRef]:
    old = reader.table()
    skip_wait(reader)
    reader.need("TO")
    return old, reader.table()


def _truncate(reader: Reader) -> Statement:
    reader.take("TABLE")
    name = reader.table()
    skip_wait(reader)
    return TruncateTable(name=name)


_READERS: dict[str, Callable[[Reader], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}

__all__ = ["GrammarFault", "other_statement", "statement"]
