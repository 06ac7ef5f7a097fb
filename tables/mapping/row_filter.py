"""Row filters: expressions over a row's columns, restricted to a closed set without side effects."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_PURE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
    exp.In, exp.Between, exp.Is, exp.Like,
)  # fmt: skip


def row_filter(text: str) -> tuple[str, tuple[str, ...]]:
    """The normalized expression and its columns; raise ValueError naming what is not allowed."""
    try:
        tree = sqlglot.parse_one(text, dialect="mysql")
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"{text!r} is not an expression: {str(error).splitlines()[0]}") from None
    for node in tree.walk():
        if type(node) not in _PURE:
            raise ValueError(f"{node.sql(dialect='mysql')!r} is not allowed in a row filter")
        if isinstance(node, exp.Column) and node.table:
            raise ValueError(f"{node.sql(dialect='mysql')!r} names a table; name the column only")
    columns = {one.name for one in tree.find_all(exp.Column)}
    return tree.sql(dialect="mysql"), tuple(sorted(columns))
