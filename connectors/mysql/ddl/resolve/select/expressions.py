"""The type of an expression in a query, as the server would create a column of it.

Invariant: rules observed on a 9.7 server apply from 8.4 on; for other servers only plain columns
are supported. An expression without a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from connectors.mysql.ddl.definition import Column
from connectors.mysql.ddl.resolve.columns import Refused, Terms
from connectors.mysql.ddl.resolve.select import arithmetic
from connectors.mysql.ddl.resolve.select.literals import (
    date_of,
    integer,
    of_introducer,
    plain,
    text_literal,
)
from connectors.mysql.ddl.resolve.select.scope import Scope, copied
from connectors.mysql.ddl.resolve.select.strings import joined, longest, shortened, text_of
from connectors.mysql.server_version import since

_CONDITIONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.In, exp.Between, exp.And, exp.Or, exp.Not,
)  # fmt: skip
_ALWAYS = (exp.Exists, exp.NullSafeEQ)
_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_CLOCKS: dict[type[exp.Expression], str] = {
    exp.CurrentTimestamp: "datetime",
    exp.Localtime: "datetime",
    exp.Localtimestamp: "datetime",
    exp.UtcTimestamp: "datetime",
    exp.CurrentDate: "date",
    exp.UtcDate: "date",
    exp.CurrentTime: "time",
    exp.UtcTime: "time",
}
_PARTS: dict[type[exp.Expression], str] = {
    exp.Year: "year",
    exp.Month: "int",
    exp.Day: "int",
    exp.DayOfMonth: "int",
    exp.DayOfWeek: "int",
    exp.DayOfYear: "int",
    exp.Hour: "int",
    exp.Minute: "int",
    exp.Second: "int",
    exp.DateDiff: "int",
    exp.TsOrDsToDate: "date",
    exp.JSONExtract: "json",
}


class Evaluation:
    """Expressions of one query."""

    def __init__(self, scope: Scope, terms: Terms) -> None:
        self._scope = scope
        self._terms = terms

    def column(self, item: exp.Expression) -> Column:
        """A column of the expression's type, under any name."""
        while isinstance(item, exp.Paren):
            item = item.this
        if isinstance(item, exp.Column):
            return copied(self._scope.column(item.table, item.name))
        if not since(self._terms.server, mysql=(8, 4, 0), mariadb=None):
            raise Refused("its query has more than columns")
        rule = _RULES.get(type(item))
        if rule is not None:
            return rule(self, item)
        if type(item) in _CLOCKS:
            return plain(_with_fraction(_CLOCKS[type(item)], item.this), nullable=False)
        if type(item) in _PARTS:
            return plain(_PARTS[type(item)], nullable=True)
        raise Refused(f"the type of {item.sql('mysql')[:60]} in its query is not certain")

    def _literal(self, item: exp.Expression) -> Column:
        if item.is_string:
            return text_literal(item.name, self._terms)
        return integer(item.name)

    def _introducer(self, item: exp.Expression) -> Column:
        return of_introducer(item.name, item.expression.name, self._terms)

    def _negative(self, item: exp.Expression) -> Column:
        if isinstance(item.this, exp.Literal):
            return integer(item.this.name, negative=True)
        return arithmetic.negative(self.column(item.this))

    def _arithmetic(self, item: exp.Expression) -> Column:
        if not all(_is_column(one) or _is_number(one) for one in (item.this, item.expression)):
            raise Refused("arithmetic with what is no column in its query is not certain")
        return arithmetic.computed(item, self.column(item.this), self.column(item.expression))

    def _condition(self, item: exp.Expression) -> Column:
        operands = [item.this, item.expression, *item.expressions]
        operands += [item.args.get("low"), item.args.get("high")]
        columns = [
            self.column(one)
            for one in operands
            if isinstance(one, exp.Expression) and not isinstance(one, exp.Null)
        ]
        nulls = any(isinstance(one, exp.Null) for one in operands)
        if item.args.get("query"):
            raise Refused("a subquery in its query is not certain")
        return plain("int", nullable=nulls or any(column.nullable for column in columns))

    def _window(self, item: exp.Expression) -> Column:
        if isinstance(item.this, _NUMBERS):
            return plain("bigint unsigned", nullable=False)
        raise Refused("a window function in its query is not certain")

    # --- aggregates ---------------------------------------------------------------------------------

    def _extreme(self, item: exp.Expression) -> Column:
        if not isinstance(item.this, exp.Column):
            raise Refused("MIN or MAX of what is no column is not certain")
        column = self.column(item.this)
        return replace(column, nullable=True, definition="")

    def _sum(self, item: exp.Expression) -> Column:
        return arithmetic.summed(self._operand(item))

    def _average(self, item: exp.Expression) -> Column:
        return arithmetic.averaged(self._operand(item))

    def _operand(self, item: exp.Expression) -> Column:
        column = self.column(item.this)
        if arithmetic.is_integer(column) and not _is_column(item.this):
            raise Refused("SUM or AVG of integers that are no column is not certain")
        return column

    def _function(self, item: exp.Expression) -> Column:
        if item.name.upper() == "NOW" and len(item.expressions) < 2:
            return plain(
                _with_fraction("datetime", next(iter(item.expressions), None)), nullable=False
            )
        raise Refused(f"the type of {item.name.upper()} in its query is not certain")

    # --- choices ------------------------------------------------------------------------------------

    def _chosen(self, branches: list[exp.Expression | None]) -> list[Column]:
        """The columns of several values; an ASCII literal gets the collation of the first other value."""
        items = [one for one in branches if one is not None and not isinstance(one, exp.Null)]
        columns = [self.column(one) for one in items]
        own = next(
            (one for one, item in zip(columns, items, strict=True) if not _is_text(item)), None
        )
        if own is None or own.charset is None:
            return columns
        return [
            replace(one, charset=own.charset, collation=own.collation) if _is_text(item) else one
            for one, item in zip(columns, items, strict=True)
        ]

    def _if(self, item: exp.Expression) -> Column:
        branches = [item.args.get("true"), item.args.get("false")]
        return self._one_of(branches, whole=not _has_gap(branches))

    def _case(self, item: exp.Expression) -> Column:
        branches = [one.args.get("true") for one in item.args["ifs"]]
        branches.append(item.args.get("default"))
        return self._one_of(branches, whole=not _has_gap(branches))

    def _one_of(self, branches: list[exp.Expression | None], *, whole: bool) -> Column:
        columns = self._chosen(branches)
        merged = _merged(columns)
        nullable = not whole or any(column.nullable for column in columns)
        return replace(merged, nullable=nullable, definition="")

    def _coalesce(self, item: exp.Expression) -> Column:
        columns = self._chosen([item.this, *item.expressions])
        if arithmetic.is_integer(columns[0]) and not all(
            map(_is_column, [item.this, *item.expressions])
        ):
            raise Refused("IFNULL or COALESCE of integers is not certain")
        nullable = all(column.nullable for column in columns)
        return replace(_merged(columns), nullable=nullable, definition="")

    # --- text ---------------------------------------------------------------------------------------

    def _concat(self, item: exp.Expression) -> Column:
        return joined(self._chosen(list(item.expressions)))

    def _same_length(self, item: exp.Expression) -> Column:
        if isinstance(item, exp.Trim) and item.args.get("collation"):
            raise Refused("a function in its query is not certain")
        return shortened(self.column(item.this), None)

    def _beginning(self, item: exp.Expression) -> Column:
        return shortened(self.column(item.this), _number(item.expression))

    def _substring(self, item: exp.Expression) -> Column:
        start, length = _number(item.args.get("start")), item.args.get("length")
        if start != 1 or length is None:
            raise Refused("SUBSTRING in its query is not certain")
        return shortened(self.column(item.this), _number(length))

    def _collate(self, item: exp.Expression) -> Column:
        return text_of(self.column(item.this), collation=item.expression.name, terms=self._terms)

    def _length(self, item: exp.Expression) -> Column:
        return plain("int", nullable=self.column(item.this).nullable)

    # --- CAST ---------------------------------------------------------------------------------------

    def _cast(self, item: exp.Expression) -> Column:
        if isinstance(item.this, exp.Literal) and (literal := date_of(item)) is not None:
            return literal
        return arithmetic.cast(item, self.column(item.this), self._terms)


def _with_fraction(name: str, argument: object) -> str:
    if argument is None:
        return name
    if isinstance(argument, exp.Literal) and argument.name.isdecimal():
        digits = int(argument.name)
        return f"{name}({digits})" if digits else name
    raise Refused(f"a {name} in its query is not certain")


def _is_column(item: exp.Expression) -> bool:
    return isinstance(item, exp.Column)


def _is_number(item: exp.Expression) -> bool:
    return isinstance(item, exp.Literal) and not item.is_string


def _is_text(item: exp.Expression) -> bool:
    return isinstance(item, exp.Literal) and item.is_string and item.name.isascii()


def _number(item: object) -> int:
    if isinstance(item, exp.Literal) and not item.is_string and item.name.isdecimal():
        return int(item.name)
    raise Refused("a length in its query is not certain")


def _has_gap(branches: list[exp.Expression | None]) -> bool:
    return any(one is None or isinstance(one, exp.Null) for one in branches)


def _merged(columns: list[Column]) -> Column:
    """The type that several values of one expression have in common."""
    if not columns:
        raise Refused("an expression of NULL alone is not certain")
    if len({(column.type, column.collation) for column in columns}) == 1:
        return columns[0]
    return longest(columns)


_Rule = Callable[[Evaluation, exp.Expression], Column]
_RULES: dict[type[exp.Expression], _Rule] = {
    exp.Literal: Evaluation._literal,
    exp.Introducer: Evaluation._introducer,
    exp.Null: lambda _self, _item: plain("varbinary(0)", nullable=True),
    exp.Boolean: lambda _self, _item: plain("int", nullable=False),
    exp.Neg: Evaluation._negative,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div), Evaluation._arithmetic),
    **dict.fromkeys(_CONDITIONS, Evaluation._condition),
    **dict.fromkeys((exp.Is, *_ALWAYS), lambda _self, _item: plain("int", nullable=False)),
    exp.Window: Evaluation._window,
    exp.Count: lambda _self, _item: plain("bigint", nullable=False),
    exp.Min: Evaluation._extreme,
    exp.Max: Evaluation._extreme,
    exp.Sum: Evaluation._sum,
    exp.Avg: Evaluation._average,
    exp.If: Evaluation._if,
    exp.Case: Evaluation._case,
    exp.Coalesce: Evaluation._coalesce,
    exp.Concat: Evaluation._concat,
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Trim), Evaluation._same_length),
    exp.Left: Evaluation._beginning,
    exp.Right: Evaluation._beginning,
    exp.Substring: Evaluation._substring,
    exp.Collate: Evaluation._collate,
    exp.Length: Evaluation._length,
    exp.Cast: Evaluation._cast,
    exp.Anonymous: Evaluation._function,
}
