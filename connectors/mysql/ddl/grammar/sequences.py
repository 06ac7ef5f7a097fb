"""MariaDB's sequences: tables of one row whose columns the server defines, and whose rows are not captured.

Invariant: in all that concerns its name, a sequence is a table; of its properties only its numbers'
type matters.
Source: MariaDB Server, sql/sql_sequence.cc, ``sequence_structure``, and the output of 10.11 and
11.8.
"""

from __future__ import annotations

from functools import cache

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar.create_table import create_table
from connectors.mysql.ddl.grammar.lexer import END, lexed
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.statement import (
    AlterSequence,
    CreateSequence,
    CreateTable,
    DropSequences,
    NoTable,
    Statement,
)

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
    """Parse the rest of ALTER SEQUENCE; most of it changes no column."""
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
    """Read all options, and return the type of its numbers if given."""
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
