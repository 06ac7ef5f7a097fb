"""The character set of a table after ALTER TABLE, and the character set to which its columns are converted.

Invariant: CONVERT TO applies to columns, and to the table's own character set unless an option sets it.
MySQL applies all clauses in the statement's order; in MariaDB, options take precedence, and several CONVERT TO
are one. A collation is valid until a later character set replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.mysql.ddl.collations import longest
from connectors.mysql.ddl.column_types import (
    OF_BYTES,
    OF_TEXT,
    as_kept,
    exactly,
    holding,
    is_strict,
    labelled,
    labels_in,
    read_again,
    sized,
)
from connectors.mysql.ddl.definition import Column, Database, Server, Session
from connectors.mysql.ddl.resolve.columns import Terms
from connectors.mysql.ddl.resolve.create import chosen
from connectors.mysql.ddl.statement import (
    NO_CHARSET,
    Action,
    Charset,
    ColumnSpec,
    ConvertTo,
    SetOptions,
)
from connectors.mysql.server_version import since
from connectors.mysql.types.geometries import is_geometry
from connectors.mysql.types.strings import BLOBS, TEXTS
from connectors.mysql.types.type_spec import Refused
from connectors.mysql.types.vectors import BYTES_OF_ELEMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The possible meanings of DEFAULT."""

    database: Database
    """The table's database."""
    selected: Database | None
    """The session's database; None if none is selected, or if it is not known."""


def after(
    actions: Sequence[Action], current: Database, defaults: Defaults, terms: Terms
) -> Database:
    """A table's own character set after an ALTER."""
    clause = NO_CHARSET
    mariadb = terms.server.mariadb
    for action in actions:
        if isinstance(action, ConvertTo) and not mariadb:
            clause = _without_default(action.charset, defaults)
        elif isinstance(action, SetOptions):
            clause = _and_then(clause, action.options.charset)
    if not clause and mariadb:
        clause = _together(actions)
    return chosen(clause, defaults.database, terms, current) if clause else current


def target(
    actions: Sequence[Action], current: Database, defaults: Defaults, terms: Terms
) -> Database | None:
    """The character set to which CONVERT TO converts columns; None without it."""
    found = [action.charset for action in actions if isinstance(action, ConvertTo)]
    if not found:
        return None
    mariadb = terms.server.mariadb
    clause = _together(actions) if mariadb else _without_default(found[-1], defaults)
    return chosen(clause, defaults.database, terms, current)


def _together(actions: Sequence[Action]) -> Charset:
    """The clauses of all CONVERT TO, as MariaDB combines them."""
    clause = NO_CHARSET
    for action in actions:
        if isinstance(action, ConvertTo):
            clause = _and_then(clause, action.charset)
    return clause


def _and_then(before: Charset, clause: Charset) -> Charset:
    """Combine the clauses of two actions."""
    if not clause:
        return before
    if clause.charset is None:
        return replace(before, collation=clause.collation, collation_first=False)
    if clause.collation is None:
        first = before.collation is not None
        return Charset(charset=clause.charset, collation=before.collation, collation_first=first)
    return clause


def _without_default(clause: Charset, defaults: Defaults) -> Charset:
    """CONVERT TO CHARACTER SET DEFAULT in full; in MySQL it is the default of the selected database.

    More exactly, it is the session's ``collation_database``. Without a selected database, that is the server's
    default at the time when the session was opened or lost its database, which no QUERY event contains.
    """
    if clause.charset != "default":
        return clause
    own = defaults.selected
    if own is None:
        raise Refused(
            "CONVERT TO CHARACTER SET DEFAULT without a known selected database depends on the session's "
            "collation_database, which the binlog does not contain"
        )
    return Charset(charset=own.charset, collation=clause.collation or own.collation)


# --- columns that are converted and changed at once -------------------------------------------------


def converted(column: Column, to: Database, *, server: Server, session: Session) -> Column:
    """A column after the conversion of its table; raise Refused if it does not fit.

    Invariant: a text column keeps its length in characters, and becomes a larger type if its bytes need
    a larger type; byte columns are unchanged.
    """
    if column.charset is None:
        return column
    name, exact = column.type.partition("(")[0], ""
    if name in ("enum", "set"):
        labels_before = labels_in(column.exact_type or column.type)
        labels = read_again(labels_before, column.charset, to.charset)
        strict = is_strict(session)
        if column.exact_type or "?" not in column.type:
            exact = exactly(name, labels, to.charset)
        new = labelled(name, labels, to.charset, server=server, strict=strict)
    else:
        # MariaDB prints COMPRESSED after the type.
        plain, _, note = column.type.partition(" ")
        new = _text(column, plain, to, server=server, session=session) + (
            f" {note}" if note else ""
        )
    kept = as_kept(new, to)
    return replace(
        column,
        type=kept.type,
        exact_type=exact,
        charset=kept.charset,
        collation=kept.collation,
    )


def _text(column: Column, plain: str, to: Database, *, server: Server, session: Session) -> str:
    name, _, length = plain.removesuffix(")").partition("(")
    if length:
        arguments = (int(length),)
        return sized(name, arguments, to.charset, server=server, session=session)
    if name == "longtext":
        return name
    if name not in OF_TEXT or column.charset is None:
        raise Refused(f"{column.type} is no type of text")
    characters = TEXTS[name] // longest(column.charset)
    return holding(characters * longest(to.charset))


def converting(spec: ColumnSpec, to: Database, server: Server) -> ColumnSpec:
    """Return a column's definition with CONVERT TO's character set in place of its own.

    BINARY still applies; together with a character set of the column's own, only in MySQL before 8.0.
    """
    own = spec.type
    binary = own.binary and (
        own.charset is None or not since(server, mysql=(8, 0, 0), mariadb=(0, 0, 0))
    )
    collation = None if binary else to.collation
    kind = replace(own, charset=to.charset, collation=collation, binary=binary)
    return replace(spec, type=kind)


def resized(spec: ColumnSpec, old: Column, new: Column, to: Database) -> Column:
    """Return a changed column as MySQL sizes it if the statement contains CONVERT TO.

    A TEXT or BLOB, except the longest of them, is sized to hold the characters of the old column.
    """
    word = OF_BYTES.get(new.type, new.type)
    if word not in OF_TEXT or spec.type.arguments or word.startswith(("long", "char", "varchar")):
        return new
    each = 1 if new.charset is None else longest(to.charset)
    name = holding(min(_characters(old) * each, 0xFFFFFFFF))
    return replace(new, type=name if new.charset is not None else OF_TEXT[name])


_OF_LENGTH = ("char", "binary", "bit", "float", "double")
_OTHER_WIDTH = 20
"""The characters of a number or a time as text; it only matters that they are few."""


def _characters(column: Column) -> int:
    """The number of characters that MySQL assumes for a column.

    MySQL divides the size of any text by the bytes of a character, although the size of a CHAR, VARCHAR, ENUM
    or SET is already in characters. Source: sql/sql_table.cc, prepare_blob_field; sql/field.h, char_length.
    """
    word, _, rest = column.type.partition("(")
    each = 1 if column.charset is None else longest(column.charset)
    if size := (TEXTS | BLOBS).get(word):
        return size // each
    if word in ("enum", "set"):
        lengths = [len(label) for label in labels_in(column.type)]
        return (max(lengths) if word == "enum" else sum(lengths) + len(lengths) - 1) // each
    if word == "json" or is_geometry(word):
        return 0xFFFFFFFF
    numbers = [int(number) for number in rest.partition(")")[0].split(",") if number]
    if word == "vector":
        return BYTES_OF_ELEMENT * numbers[0]
    if word == "decimal":
        # With a point and a sign.
        return numbers[0] + bool(numbers[1]) + ("unsigned" not in rest)
    return numbers[0] // each if word.endswith(_OF_LENGTH) and numbers else _OTHER_WIDTH
