"""Types of numbers in a query: sums, products, aggregates, and CAST.

Invariant: where the number of digits decides between INT and BIGINT, or sizes a DECIMAL, digits are
counted as MySQL counts them.
"""

from __future__ import annotations

import re

from sqlglot import exp

from connectors.mysql.ddl.definition import Column
from connectors.mysql.ddl.resolve.columns import Refused, Terms
from connectors.mysql.ddl.resolve.select.literals import connection, named, plain, text
from connectors.mysql.ddl.resolve.select.strings import recoded

_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 19}
_FLOATS = ("float", "double")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LONGEST_INT = 11
_MOST_DIGITS, _MOST_SCALE = 65, 30


def is_integer(column: Column) -> bool:
    """Whether a column is of an integer type."""
    return _word(column) in _DIGITS


def _word(column: Column) -> str:
    return column.type.partition("(")[0].partition(" ")[0]


def _is_unsigned(column: Column) -> bool:
    return "unsigned" in column.type


def _precision(column: Column) -> tuple[int, int]:
    """The number of all digits, and of the digits after the point."""
    if is_integer(column):
        digits = _DIGITS[_word(column)]
        return digits + (digits == 19 and _is_unsigned(column)), 0
    if found := _DECIMAL.match(column.type):
        return int(found[1]), int(found[2])
    raise Refused(f"arithmetic with {column.type} in its query is not certain")


def _decimal(digits: int, scale: int, *, nullable: bool) -> Column:
    if digits > _MOST_DIGITS or scale > _MOST_SCALE:
        raise Refused("a decimal in its query is too long to determine its type")
    return plain(f"decimal({digits},{scale})", nullable=nullable)


def negative(column: Column) -> Column:
    """``-column``."""
    if _word(column) in ("smallint", "int", "decimal") and not _is_unsigned(column):
        return plain(column.type, nullable=column.nullable)
    raise Refused(f"minus of {column.type} in its query is not certain")


def computed(item: exp.Expression, left: Column, right: Column) -> Column:
    """Return the column of ``left + right`` or another operator; literals are columns of their own type."""
    nullable = left.nullable or right.nullable or isinstance(item, exp.Div)
    if _word(left) in _FLOATS or _word(right) in _FLOATS:
        return plain("double", nullable=nullable)
    a, b = (_literal_precision(item.this, left), _literal_precision(item.expression, right))
    if isinstance(item, exp.Div):
        # div_precision_increment is 4 by default.
        return _decimal(a[0] + 4 + b[1], a[1] + 4, nullable=True)
    scale = a[1] + b[1] if isinstance(item, exp.Mul) else max(a[1], b[1])
    whole = max(a[0] - a[1], b[0] - b[1]) + 1
    digits = a[0] + b[0] if isinstance(item, exp.Mul) else whole + scale
    if not (is_integer(left) and is_integer(right)):
        return _decimal(digits, scale, nullable=nullable)
    unsigned = _is_unsigned(left) or _is_unsigned(right)
    long = digits + (not unsigned) > _LONGEST_INT
    sign = " unsigned" if unsigned else ""
    return plain(f"{'bigint' if long else 'int'}{sign}", nullable=nullable)


def _literal_precision(item: exp.Expression, column: Column) -> tuple[int, int]:
    if isinstance(item, exp.Literal) and item.name.isdecimal():
        return len(item.name), 0
    return _precision(column)


def summed(column: Column) -> Column:
    """``SUM(column)``."""
    if _word(column) in _FLOATS:
        return plain("double", nullable=True)
    digits, scale = _precision(column)
    return _decimal(digits + 22, scale, nullable=True)


def averaged(column: Column) -> Column:
    """``AVG(column)``."""
    if _word(column) in _FLOATS:
        return plain("double", nullable=True)
    digits, scale = _precision(column)
    return _decimal(digits + 4, scale + 4, nullable=True)


_KIND = exp.DataType.Type
_TO = {
    _KIND.DATE: "date",
    _KIND.DATETIME: "datetime",
    _KIND.TIME: "time",
    _KIND.JSON: "json",
}


def cast(item: exp.Expression, column: Column, terms: Terms) -> Column:
    """``CAST(column AS type)``."""
    to = item.args["to"]
    arguments = [int(one.name) for one in to.expressions if one.name.isdecimal()]
    if to.this == _KIND.CHAR and len(arguments) == 1:
        return text(arguments[0], connection(terms), nullable=True)
    if to.this == _KIND.CHAR and not arguments:
        return recoded(column, connection(terms))
    if to.this == _KIND.CHARACTER_SET:
        return recoded(column, named(to.args["kind"].name, terms))
    if to.this == _KIND.BINARY and len(arguments) == 1:
        return plain(f"varbinary({arguments[0]})", nullable=True)
    if to.this in _TO and len(arguments) < 2:
        fraction = f"({arguments[0]})" if arguments and arguments[0] else ""
        return plain(_TO[to.this] + fraction, nullable=True)
    if to.this in (_KIND.BIGINT, _KIND.UBIGINT):
        sign = " unsigned" if to.this == _KIND.UBIGINT else ""
        return plain(f"bigint{sign}", nullable=column.nullable)
    if to.this == _KIND.DECIMAL:
        digits, scale = (*arguments, 10, 0)[:2] if len(arguments) != 1 else (arguments[0], 0)
        return _decimal(digits, scale, nullable=column.nullable)
    raise Refused("a CAST in its query is not certain")
