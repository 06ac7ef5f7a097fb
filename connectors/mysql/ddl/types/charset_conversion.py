"""A column after ``ALTER TABLE … CONVERT TO CHARACTER SET``.

Invariant: a text column keeps its length in characters, and becomes a larger type if its bytes need
one; byte columns are unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.ddl.definition import Column, Database, Server, Session
from connectors.mysql.ddl.types import collations
from connectors.mysql.ddl.types import text as text_types
from connectors.mysql.ddl.types.enum_labels import exactly, labelled, labels_in, read_again
from connectors.mysql.types.type_spec import TypeRefused


def converted(column: Column, to: Database, *, server: Server, session: Session) -> Column:
    """A column after the conversion of its table; raises TypeRefused if it does not fit."""
    if column.charset is None:
        return column
    name, exact = column.type.partition("(")[0], ""
    if name in ("enum", "set"):
        labels_before = labels_in(column.exact_type or column.type)
        labels = read_again(labels_before, column.charset, to.charset)
        strict = text_types.is_strict(session)
        if column.exact_type or "?" not in column.type:
            exact = exactly(name, labels, to.charset)
        new = labelled(name, labels, to.charset, server=server, strict=strict)
    else:
        # MariaDB prints COMPRESSED after the type.
        plain, _, note = column.type.partition(" ")
        new = _text(column, plain, to, server=server, session=session) + (
            f" {note}" if note else ""
        )
    kept = text_types.as_kept(new, to)
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
        return text_types.sized(name, arguments, to.charset, server=server, session=session)
    if name == "longtext":
        return name
    if name not in text_types.OF_TEXT or column.charset is None:
        raise TypeRefused(f"{column.type} is no type of text")
    characters = text_types.capacity(name) // collations.longest(column.charset)
    return text_types.holding(characters * collations.longest(to.charset))
