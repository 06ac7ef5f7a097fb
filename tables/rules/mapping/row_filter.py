"""The predicate of a row filter for one table version: typed, then compiled to Python.

Invariant: logic has three values, as in SQL: a comparison with NULL is neither true nor false, and a row
passes only if the whole expression is true. An expression that names a column which the version lacks, or
compares what has no common order, is refused before any row is read.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import sqlglot
from sqlglot import exp

from connectors.mysql.types.registry import Comparable, sql_type

# The syntax of row filters: a closed set of MySQL's expressions, without functions.
#
# Invariant: an expression has no side effect, and its result depends on the row alone.


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


# Families of column types: values of one family are compared, after conversion from their JSON form.
#
# Exact numbers are compared as decimals, and with FLOAT or DOUBLE as doubles, as in MySQL. Texts
# are compared by character, as with a collation that ends in `_bin`: the weights of other collations
# depend on the server. TIMESTAMP is compared in UTC.


class Family(Enum):
    """A family of types; the value is its name in messages."""

    EXACT = "a number"
    DOUBLE = "a floating-point number"
    TEXT = "a text"
    TIME = "a date or time"
    NULL = "NULL"
    OTHER = "a value that cannot be compared"

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self in (Family.EXACT, Family.DOUBLE)


Convert = Callable[[Any], Any]
"""Converts a value that is not NULL from its JSON form to the form in which it is compared."""

_FAMILIES = {
    Comparable.EXACT: Family.EXACT,
    Comparable.DOUBLE: Family.DOUBLE,
    Comparable.TEXT: Family.TEXT,
    Comparable.TIME: Family.TIME,
    Comparable.NOT: Family.OTHER,
}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?Z?")
_FLOAT = struct.Struct("<f")


def family_of(column_type: str) -> Family:
    """The family of a column's type, such as ``decimal(12,2)``."""
    return _FAMILIES[sql_type(_base(column_type)).comparable]


def conversion(column_type: str) -> Convert:
    """The conversion of a column's values from JSON."""
    if family_of(column_type) is Family.TIME:
        return moment
    return _CONVERSIONS.get(_base(column_type), unchanged)


def as_float(value: float) -> float:
    """The double that equals a 32-bit float; JSON has the float's shortest text."""
    (found,) = _FLOAT.unpack(_FLOAT.pack(value))
    return float(found)


def moment(text: str) -> str:
    """A date or time in a form that sorts by time; raise ValueError if the text is not a date."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date; write 'YYYY-MM-DD' or 'YYYY-MM-DD hh:mm:ss'")
    day, time, fraction = found.groups()
    return f"{day} {time or '00:00:00'}.{fraction or '':0<6}"


def unchanged(value: Any) -> Any:
    """The value itself."""
    return value


_CONVERSIONS: Mapping[str, Convert] = {
    "decimal": Decimal,
    "float": as_float,
}


def _base(column_type: str) -> str:
    return re.split(r"[ (]", column_type, maxsplit=1)[0]


Image = Mapping[str, Any]
"""A row's values in their JSON form, by column."""
Read = Callable[[Image], Any]
Predicate = Callable[[Image], bool]
"""Whether an image passes; raises KeyError if it lacks a column that is read."""
Truth = Callable[[Image], bool | None]

_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operand:
    """A column or a constant."""

    text: str
    family: Family
    read: Read
    constant: str | None = None
    """The value of a text between quotes."""


def predicate(text: str, types: Mapping[str, str]) -> Predicate:
    """The test of an image, by the types of a version's columns; raise ValueError if the filter is unfit."""
    truth = _Compiler(types).truth(parsed(text))
    return lambda image: truth(image) is True


class _Compiler:
    """Compiles expressions over the columns of one version."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._columns = {name.lower(): (name, kind) for name, kind in types.items()}

    def truth(self, node: exp.Expr) -> Truth:
        """An expression as a condition."""
        if isinstance(node, exp.Paren):
            return self.truth(node.this)
        if isinstance(node, exp.And | exp.Or):
            return _joined(
                self.truth(node.left), self.truth(node.right), absorbing=isinstance(node, exp.Or)
            )
        if isinstance(node, exp.Not):
            return _negated(self.truth(node.this))
        if isinstance(node, exp.Binary) and type(node) in _COMPARISONS:
            return self._compared(node.left, node.right, _COMPARISONS[type(node)])
        if isinstance(node, exp.NullSafeEQ):
            return self._same(node.left, node.right)
        if isinstance(node, exp.In):
            return self._any(node)
        if isinstance(node, exp.Between):
            low = self._compared(node.this, node.args["low"], operator.ge)
            high = self._compared(node.this, node.args["high"], operator.le)
            return _joined(low, high, absorbing=False)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Like):
            return self._like(node)
        return self._as_condition(node)

    def _compared(
        self, one: exp.Expr, other: exp.Expr, compare: Callable[[Any, Any], bool]
    ) -> Truth:
        left, right = self._pair(one, other)

        def truth(image: Image) -> bool | None:
            first, second = left(image), right(image)
            return None if first is None or second is None else compare(first, second)

        return truth

    def _same(self, one: exp.Expr, other: exp.Expr) -> Truth:
        left, right = self._pair(one, other)
        return lambda image: left(image) == right(image)

    def _pair(self, one: exp.Expr, other: exp.Expr) -> tuple[Read, Read]:
        """Both operands, converted to a common form."""
        left, right = self._operand(one), self._operand(other)
        return _converted(left, right), _converted(right, left)

    def _any(self, node: exp.In) -> Truth:
        found = [self._compared(node.this, one, operator.eq) for one in node.expressions]

        def truth(image: Image) -> bool | None:
            values = [one(image) for one in found]
            return True if True in values else None if None in values else False

        return truth

    def _is(self, node: exp.Is) -> Truth:
        wanted = node.expression
        if isinstance(wanted, exp.Null):
            read = self._operand(node.this).read
            return lambda image: read(image) is None
        if not isinstance(wanted, exp.Boolean):
            raise ValueError(f"{_shown(node)} is not allowed; use IS with NULL, TRUE or FALSE")
        truth, value = self.truth(node.this), bool(wanted.this)
        return lambda image: truth(image) is value

    def _like(self, node: exp.Like) -> Truth:
        operand, pattern = self._operand(node.this), node.expression
        if operand.family is not Family.TEXT:
            raise ValueError(f"{operand.text} is {operand.family.value}; LIKE needs a text")
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise ValueError(f"{_shown(node)}: LIKE needs a pattern between quotes")
        matches, read = re.compile(_expression(pattern.this), re.DOTALL).fullmatch, operand.read

        def truth(image: Image) -> bool | None:
            value = read(image)
            return None if value is None else matches(value) is not None

        return truth

    def _as_condition(self, node: exp.Expr) -> Truth:
        operand = self._operand(node)
        if not operand.family.is_number and operand.family is not Family.NULL:
            raise ValueError(f"{operand.text} is {operand.family.value}, not a condition")
        read = operand.read

        def truth(image: Image) -> bool | None:
            value = read(image)
            return None if value is None else value != 0

        return truth

    def _operand(self, node: exp.Expr) -> _Operand:
        if isinstance(node, exp.Paren):
            return self._operand(node.this)
        if isinstance(node, exp.Column):
            return self._column(node.name)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return _number(f"-{node.this.this}")
        if isinstance(node, exp.Literal):
            return _text(node.this) if node.is_string else _number(node.this)
        if isinstance(node, exp.Boolean):
            return _number(str(int(node.this)))
        if isinstance(node, exp.Null):
            return _Operand(text="NULL", family=Family.NULL, read=lambda _: None)
        raise ValueError(f"{_shown(node)} is a condition, and cannot be compared")

    def _column(self, name: str) -> _Operand:
        if name.lower() not in self._columns:
            raise ValueError(f"there is no column {name!r}, which the row filter reads")
        own, kind = self._columns[name.lower()]
        convert = conversion(kind)

        def read(image: Image) -> Any:
            value = image[own]
            return None if value is None else convert(value)

        plain: Read = operator.itemgetter(own)
        is_plain = convert is unchanged
        return _Operand(
            text=f"{own} ({kind})", family=family_of(kind), read=plain if is_plain else read
        )


def _converted(one: _Operand, other: _Operand) -> Read:
    """The first operand in the form in which both are compared; raise ValueError if they are not comparable."""
    mine, its = one.family, other.family
    if Family.OTHER in (mine, its):
        bad = one if mine is Family.OTHER else other
        raise ValueError(f"{bad.text} cannot be compared; a row filter may test it by IS NULL")
    if mine is its or Family.NULL in (mine, its) or (mine is Family.DOUBLE and its.is_number):
        return one.read
    if mine is Family.EXACT and its is Family.DOUBLE:
        return _after(one.read, float)
    if mine is Family.TIME and other.constant is not None:
        return one.read
    if its is Family.TIME and one.constant is not None:
        value = moment(one.constant)
        return lambda _: value
    raise ValueError(
        f"{one.text} is {mine.value} and {other.text} is {its.value}; they cannot be compared"
    )


def _after(read: Read, convert: Convert) -> Read:
    def converted(image: Image) -> Any:
        value = read(image)
        return None if value is None else convert(value)

    return converted


def _text(value: str) -> _Operand:
    return _Operand(text=repr(value), family=Family.TEXT, read=lambda _: value, constant=value)


def _number(text: str) -> _Operand:
    """A number as MySQL reads it: with an exponent it is a double."""
    is_double = "e" in text.lower()
    value: float | Decimal = float(text) if is_double else Decimal(text)
    family = Family.DOUBLE if is_double else Family.EXACT
    return _Operand(text=text, family=family, read=lambda _: value)


def _joined(left: Truth, right: Truth, *, absorbing: bool) -> Truth:
    """AND, for which False decides, or OR, for which True does."""

    def truth(image: Image) -> bool | None:
        first = left(image)
        if first is absorbing:
            return absorbing
        second = right(image)
        if second is absorbing:
            return absorbing
        return None if first is None or second is None else not absorbing

    return truth


def _negated(truth: Truth) -> Truth:
    def negated(image: Image) -> bool | None:
        value = truth(image)
        return None if value is None else not value

    return negated


def _expression(pattern: str) -> str:
    r"""The regular expression of a LIKE pattern, in which a backslash escapes."""
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join(signs.get(one) or re.escape(one[1:] if len(one) > 1 else one) for one in parts)


def _shown(node: exp.Expr) -> str:
    return repr(node.sql(dialect="mysql"))
