"""Types of text in a query.

Invariant: lengths are counted in characters. Texts of two collations are refused, unless the text of
one collation is an ASCII literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from connectors.mysql.ddl import collations
from connectors.mysql.ddl.column_types import labels_in
from connectors.mysql.ddl.definition import Column, Database
from connectors.mysql.ddl.resolve.columns import Refused, Terms
from connectors.mysql.ddl.resolve.select.literals import text

_TEXT = re.compile(r"(?:var)?char\((\d+)\)")


def _length(column: Column) -> int:
    if column.type.startswith("enum("):
        return max(map(len, labels_in(column.type)))
    found = _TEXT.fullmatch(column.type)
    if found is None:
        raise Refused(f"text of {column.type} in its query is not certain")
    return int(found[1])


def _common(columns: Sequence[Column]) -> Database:
    found = {(column.charset, column.collation) for column in columns}
    if len(found) != 1:
        raise Refused("texts of several collations in its query are not certain")
    charset, collation = found.pop()
    if charset is None or collation is None:
        raise Refused("bytes in a text of its query are not certain")
    return Database(charset=charset, collation=collation)


def joined(columns: Sequence[Column]) -> Column:
    """``CONCAT(…)``."""
    return text(sum(map(_length, columns)), _common(columns), nullable=True)


def longest(columns: Sequence[Column]) -> Column:
    """The longest of several texts."""
    return text(max(map(_length, columns)), _common(columns), nullable=True)


def recoded(column: Column, own: Database) -> Column:
    """A text in another character set."""
    return text(_length(column), own, nullable=True)


def shortened(column: Column, most: int | None) -> Column:
    """Return a text's beginning or end; with None for ``most``, a text of the same length."""
    length = _length(column)
    return text(length if most is None else min(length, most), _common([column]), nullable=True)


def text_of(column: Column, *, collation: str, terms: Terms) -> Column:
    """A text with another collation of its character set."""
    own = collations.of_collation(collation, server=terms.server)
    if own.charset != column.charset:
        raise Refused("COLLATE in its query is not certain")
    return text(_length(column), own, nullable=column.nullable)
