"""Statement parser: the statement's kind, and the rules for databases, indexes and sequences.

Invariant: a statement that may concern a table is understood to its last token, or is a fault. A statement
is harmless only by a rule that names it.

Invariant of CREATE, ALTER and DROP DATABASE: a database's character set and collation are kept, since its
tables inherit them.

Invariant of CREATE INDEX and DROP INDEX: they become actions of ALTER TABLE, so that their effects follow
the same rules.

MariaDB's sequences are tables of one row, whose columns the server defines, and whose rows are not
captured. Invariant: the name of a sequence is treated like that of a table; of its properties only the type
of its numbers matters. Source: MariaDB Server, sql/sql_sequence.cc, ``sequence_structure``, and the output
of 10.11 and 11.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from connectors.mysql.ddl.definition import SPECIAL_KINDS, Server, Session, TableRef
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.keys import key_options, part, skip_wait
from connectors.mysql.ddl.grammar.lexer import END, GrammarFault, lexed
from connectors.mysql.ddl.grammar.options import database_options
from connectors.mysql.ddl.grammar.tables import alter_table, create_table
from connectors.mysql.ddl.grammar.token_reader import Reader, skip_value
from connectors.mysql.ddl.statement import (
    AddIndex,
    AlterDatabase,
    AlterSequence,
    AlterTable,
    CreateDatabase,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropIndex,
    DropSequences,
    DropTables,
    IndexKind,
    IndexSpec,
    NoTable,
    RenameTables,
    Statement,
    TruncateTable,
)

_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
_READ = _VERBS | {"SET"}
_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)(?![\w$])")
_TABLES = frozenset({"TABLE", "TABLES"})
_DATABASES = frozenset({"DATABASE", "SCHEMA"})
_INDEX_KINDS: Mapping[str, IndexKind] = {"UNIQUE": "UNIQUE", **SPECIAL_KINDS}
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
    """Return a statement that is not DDL, recognized by its first word alone; None for any other statement.

    The rest is not parsed, because statements that change rows can have megabytes.
    """
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
        return create_index(reader, _INDEX_KINDS[kind], or_replace=or_replace)
    if reader.take("INDEX"):
        return create_index(reader, "KEY", or_replace=or_replace)
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
    """A statement on neither a table nor a database, if ``_NO_TABLES`` names its kind."""
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
    ignore = reader.take("IGNORE")
    if reader.take("TABLE"):
        return alter_table(reader, ignore=ignore)
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


_RESERVED = frozenset({"DEFAULT", "CHARACTER", "CHAR", "COLLATE", "READ"})
"""Words that cannot be unquoted names, so that an option begins with them."""
_MANGLED = "#mysql50#"


def create_database(reader: Reader, *, or_replace: bool) -> CreateDatabase:
    """Parse the rest of CREATE DATABASE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    return CreateDatabase(
        name=reader.name(),
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        charset=database_options(reader),
    )


def alter_database(reader: Reader) -> AlterDatabase:
    """Parse the rest of ALTER DATABASE; the name may be missing."""
    name = None if _begins_options(reader) else reader.name()
    if reader.take("UPGRADE", "DATA", "DIRECTORY", "NAME"):
        # A directory of MySQL 5.0, whose name had a prefix, gets the name without the prefix.
        return AlterDatabase(name=name, to=name.removeprefix(_MANGLED) if name else None)
    return AlterDatabase(name=name, charset=database_options(reader))


def _begins_options(reader: Reader) -> bool:
    """Whether options begin without a name; a server reads any word that can be a name as a name."""
    if reader.key == "COMMENT" and reader.server.mariadb:
        return reader.keys[reader.at + 1] in ("=", lexer.STRING)
    return reader.key in _RESERVED


def drop_database(reader: Reader) -> DropDatabase:
    """Parse the rest of DROP DATABASE."""
    if_exists = reader.take("IF", "EXISTS")
    return DropDatabase(name=reader.name(), if_exists=if_exists)


_METHOD = frozenset({"USING", "TYPE"})


def create_index(reader: Reader, kind: IndexKind, *, or_replace: bool) -> AlterTable:
    """Parse the rest of CREATE INDEX; MariaDB's OR REPLACE drops the key of that name first."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    if reader.take_one(_METHOD):
        reader.name()
    reader.need("ON")
    table = reader.table()
    skip_wait(reader)
    parts = reader.enclosed(lambda: part(reader))
    options = key_options(reader)
    _skip_ways(reader)
    spec = IndexSpec(
        kind=kind, name=name, parts=parts, if_not_exists=if_not_exists, options=options
    )
    added = AddIndex(kind="ADD INDEX", spec=spec)
    dropped = DropIndex(kind="DROP INDEX", name=name, if_exists=True)
    actions = (dropped, added) if or_replace else (added,)
    return AlterTable(type="CREATE INDEX", name=table, actions=actions)


def drop_index(reader: Reader) -> AlterTable:
    """Parse the rest of DROP INDEX."""
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()
    reader.need("ON")
    table = reader.table()
    skip_wait(reader)
    _skip_ways(reader)
    action = DropIndex(kind="DROP INDEX", name=name, if_exists=if_exists)
    return AlterTable(type="DROP INDEX", name=table, actions=(action,))


def _skip_ways(reader: Reader) -> None:
    """Skip algorithm and lock clauses."""
    skip_wait(reader)
    while reader.take("ALGORITHM") or reader.take("LOCK"):
        reader.take("=")
        skip_value(reader)


_WIDTHS = {"TINYINT": 5, "SMALLINT": 7, "MEDIUMINT": 10, "INT": 12, "INTEGER": 12, "BIGINT": 21}
"""Types that a sequence's numbers may have since 11.5, with the server's display widths for them."""
_USUAL = "bigint(21)"


def create_sequence(reader: Reader, *, or_replace: bool, temporary: bool) -> CreateSequence:
    """Parse the rest of CREATE SEQUENCE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.table()
    made = _structure(_type(reader) or _USUAL)
    return CreateSequence(
        name=name,
        temporary=temporary,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        columns=made.columns,
        options=made.options,
    )


def alter_sequence(reader: Reader) -> Statement:
    """Parse the rest of ALTER SEQUENCE; most options change no column."""
    reader.take("IF", "EXISTS")
    name = reader.table()
    kind = _type(reader)
    if kind is None:
        return NoTable(type="ALTER SEQUENCE")
    return AlterSequence(name=name, columns=_structure(kind).columns)


def drop_sequences(reader: Reader, *, temporary: bool) -> DropSequences:
    """Parse the rest of DROP SEQUENCE."""
    if_exists = reader.take("IF", "EXISTS")
    return DropSequences(
        names=reader.listed(reader.table), temporary=temporary, if_exists=if_exists
    )


def _type(reader: Reader) -> str | None:
    """Read all options, and return the type of the sequence's numbers if given."""
    found = None
    while reader.key != END:
        if reader.take("AS"):
            word = reader.key
            if word not in _WIDTHS:
                raise reader.fault("expected a type of a sequence's numbers")
            reader.at += 1
            sign = " unsigned" if reader.take("UNSIGNED") else ""
            name = "int" if word == "INTEGER" else word.lower()
            found = f"{name}({_WIDTHS[word]}){sign}"
        else:
            reader.at += 1
    return found


@cache
def _structure(kind: str) -> CreateTable:
    sql = (
        f"s (next_not_cached_value {kind} NOT NULL, minimum_value {kind} NOT NULL,"
        f" maximum_value {kind} NOT NULL, start_value {kind} NOT NULL, increment bigint(21) NOT NULL,"
        " cache_size bigint(21) unsigned NOT NULL, cycle_option tinyint(1) unsigned NOT NULL,"
        " cycle_count bigint(21) NOT NULL) SEQUENCE=1"
    )
    server, session = Server(version=(10, 3, 0), mariadb=True), Session()
    return create_table(
        Reader(lexed(sql, server, session), server, session), or_replace=False, temporary=False
    )
