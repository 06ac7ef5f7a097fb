"""Which character set a table has after ALTER TABLE, and which its columns are converted to.

The law: CONVERT TO is about columns, and about the table's own character set as far as no option says that one;
MySQL takes all of it in the statement's order, MariaDB lets options stand above. A collation counts until a
character set behind it ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.mysql.ddl.definition import Column, Database, Server
from connectors.mysql.ddl.effect.columns import Terms
from connectors.mysql.ddl.effect.create import chosen
from connectors.mysql.ddl.server_version import since
from connectors.mysql.ddl.statement.alter_actions import Action, ConvertTo, SetOptions
from connectors.mysql.ddl.statement.column_spec import NO_CHARSET, Charset, ColumnSpec
from connectors.mysql.ddl.types.collations import longest
from connectors.mysql.ddl.types.enum_labels import labels_in
from connectors.mysql.ddl.types.text import OF_BYTES, OF_TEXT, holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What DEFAULT may mean."""

    database: Database
    """The table's."""
    selected: Database
    """The session's."""


def after(
    actions: Sequence[Action], current: Database, defaults: Defaults, terms: Terms
) -> Database:
    """A table's own character set after an ALTER."""
    said = NO_CHARSET
    mariadb = terms.server.mariadb
    for action in actions:
        if isinstance(action, ConvertTo) and not mariadb:
            said = _without_default(action.charset, defaults)
        elif isinstance(action, SetOptions):
            said = _and_then(said, action.options.charset)
    if not said and mariadb:
        said = next((one.charset for one in reversed(actions) if isinstance(one, ConvertTo)), said)
    return chosen(said, defaults.database, terms, current) if said else current


def target(
    actions: Sequence[Action], current: Database, defaults: Defaults, terms: Terms
) -> Database | None:
    """What CONVERT TO converts columns to; None without it."""
    found = [action.charset for action in actions if isinstance(action, ConvertTo)]
    if not found:
        return None
    said = found[-1] if terms.server.mariadb else _without_default(found[-1], defaults)
    return chosen(said, defaults.database, terms, current)


def _and_then(before: Charset, said: Charset) -> Charset:
    """What two actions say of one thing."""
    if not said:
        return before
    if said.charset is None:
        return replace(before, collation=said.collation, collation_first=False)
    if said.collation is None:
        first = before.collation is not None
        return Charset(charset=said.charset, collation=before.collation, collation_first=first)
    return said


def _without_default(said: Charset, defaults: Defaults) -> Charset:
    """CONVERT TO CHARACTER SET DEFAULT in full, for which MySQL looks at the database that is selected."""
    if said.charset != "default":
        return said
    own = defaults.selected
    return Charset(charset=own.charset, collation=said.collation or own.collation)


# --- columns that are converted and changed at once -------------------------------------------------


def converting(spec: ColumnSpec, to: Database, server: Server) -> ColumnSpec:
    """A column's definition with what CONVERT TO says in place of its own character set; BINARY still counts,
    though beside a character set of its own only in MySQL before 8.0."""
    own = spec.type
    binary = own.binary and (
        own.charset is None or not since(server, mysql=(8, 0, 0), mariadb=(0, 0, 0))
    )
    collation = None if binary else to.collation
    kind = replace(own, charset=to.charset, collation=collation, binary=binary)
    return replace(spec, type=kind)


def resized(spec: ColumnSpec, old: Column, new: Column, to: Database) -> Column:
    """A changed column as MySQL sizes it, where CONVERT TO stands in the same statement: a TEXT or BLOB, other
    than the longest, is made to hold the characters of the column that was there."""
    word = OF_BYTES.get(new.type, new.type)
    if word not in OF_TEXT or spec.type.arguments or word.startswith(("long", "char", "varchar")):
        return new
    each = 1 if new.charset is None else longest(to.charset)
    name = holding(min(_characters(old) * each, 0xFFFFFFFF))
    return replace(new, type=name if new.charset is not None else OF_TEXT[name])


_SIZES = {"tiny": 0xFF, "": 0xFFFF, "medium": 0xFFFFFF, "long": 0xFFFFFFFF}
_OTHER_WIDTH = 20
"""Of a number or a time as text; only whether it is short matters."""


def _characters(column: Column) -> int:
    """How many characters a column holds."""
    word, _, rest = column.type.partition("(")
    if word.endswith(("text", "blob")):
        size = _SIZES[word[:-4]]
        return size if column.charset is None else size // longest(column.charset)
    if word in ("enum", "set"):
        lengths = [len(label) for label in labels_in(column.type)]
        return max(lengths) if word == "enum" else sum(lengths) + len(lengths) - 1
    if word.endswith(("char", "binary", "decimal")):
        return int(rest.partition(")")[0].partition(",")[0])
    if word == "json" or word.endswith(
        ("geometry", "point", "linestring", "polygon", "collection")
    ):
        return 0xFFFFFFFF
    return _OTHER_WIDTH
