"""The syntax of row filters: a closed set of MySQL's expressions, without functions.

Invariant: an expression has no side effect, and its result depends on the row alone.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_PURE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
    exp.In, exp.Between, exp.Is, exp.Like,
)  # fmt: skip
ALLOWED = (
    "=, <=>, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS, AND, OR, NOT, columns, numbers and texts"
)


def parsed(text: str) -> exp.Expr:
    """The tree of an expression; raise ValueError that names what is not allowed."""
    try:
        tree = sqlglot.parse_one(text, dialect="mysql")
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"{text!r} is not an expression: {str(error).splitlines()[0]}") from None
    for node in tree.walk():
        if type(node) not in _PURE or (isinstance(node, exp.In) and not node.expressions):
            shown = node.sql(dialect="mysql")
            raise ValueError(f"{shown!r} is not allowed in a row filter; use {ALLOWED}")
        if isinstance(node, exp.Column) and node.table:
            raise ValueError(f"{node.sql(dialect='mysql')!r} names a table; name the column only")
    return tree


def row_filter(text: str) -> tuple[str, tuple[str, ...]]:
    """The normalized expression and its columns; raise ValueError naming what is not allowed."""
    tree = parsed(text)
    return tree.sql(dialect="mysql"), columns_of(tree)


def columns_of(tree: exp.Expr) -> tuple[str, ...]:
    """The names of the columns that an expression reads, sorted."""
    return tuple(sorted({one.name for one in tree.find_all(exp.Column)}))
