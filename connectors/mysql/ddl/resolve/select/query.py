"""The columns that the query of CREATE TABLE … SELECT gives.

Invariant: a column is returned only if the server's own rule for it is certain; any other column is
refused, never guessed.
sqlglot parses the query. A row-based binlog has no such query: the server writes the columns
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Server, Session
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import lexed
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.resolve.columns import Refused
from connectors.mysql.ddl.resolve.draft import Draft
from connectors.mysql.ddl.resolve.select.arithmetic import is_integer
from connectors.mysql.ddl.resolve.select.expressions import Evaluation
from connectors.mysql.ddl.resolve.select.scope import Scope, Source, copied
from connectors.mysql.ddl.resolve.select.strings import longest

_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery)
_NOT_LOOKED_AT = {
    "kind", "hint", "distinct", "expressions", "from_", "joins", "where", "group", "having", "order", "limit",
    "offset", "locks", "windows", "with_", "operation_modifiers",
}  # fmt: skip
"""Parts of a query that do not affect its columns, or are evaluated below."""

Derived = dict[str, Sequence[Column]]
"""The columns of each common table expression of a query, by the expression's name in lower case."""


def selected(query: str, draft: Draft) -> tuple[Column, ...]:
    """The columns of a query; raise Refused if one of them is uncertain."""
    if "||" in query and not draft.terms.session.sql_mode.isdisjoint({"PIPES_AS_CONCAT", "ANSI"}):
        raise Refused("its query has || for text")
    # The text is only parsed, never executed.
    text = f"SELECT * FROM {query[5:]}" if query[:5].upper() == "TABLE" else query  # noqa: S608
    try:
        tree = sqlglot.parse_one(text, dialect="mysql")
    except (SqlglotError, RecursionError):
        raise Refused("its query is not understood") from None
    if not isinstance(tree, exp.Expression):
        raise Refused("its query is not understood")
    return tuple(_Query(draft, text, {}).columns(tree))


class _Query:
    """A query, and the tables that it can select from: existing tables, and those of its WITH."""

    def __init__(self, draft: Draft, text: str, derived: Derived, *, named: bool = True) -> None:
        self._draft = draft
        self._text = text
        self._derived = derived
        self._named = named

    def columns(self, tree: exp.Expression) -> list[Column]:
        """The columns of a query, with or without parentheses."""
        if not isinstance(tree, _QUERIES):
            raise Refused("the columns of its query cannot be determined")
        inner = self._with(tree)
        if isinstance(tree, exp.Subquery):
            return inner.columns(tree.this)
        if isinstance(tree, exp.SetOperation):
            # The first query names the columns.
            others = _Query(self._draft, "", inner._derived, named=False)
            columns = united(inner.columns(tree.this), others.columns(tree.expression))
            if any(map(is_integer, columns)) and not _of_columns(tree):
                raise Refused("a UNION of integers that are no columns is not certain")
            return columns
        return list(inner._of_select(tree))

    def _with(self, tree: exp.Expression) -> _Query:
        clause = tree.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            raise Refused("its query is recursive")
        derived = dict(self._derived)
        for part in clause.expressions:
            if part.args["alias"].columns:
                raise Refused("its query names columns of a WITH")
            inner = _Query(self._draft, "", derived)
            derived[lowered(part.alias)] = inner.columns(part.this)
        return _Query(self._draft, self._text, derived)

    def _of_select(self, select: exp.Select) -> Iterator[Column]:
        unknown = {name for name, value in select.args.items() if value} - _NOT_LOOKED_AT
        if unknown:
            raise Refused(f"its query has {min(unknown).upper()}")
        group = select.args.get("group")
        if group is not None and any(group.args.get(name) for name in ("rollup", "cube", "totals")):
            raise Refused("its query has ROLLUP")
        scope = Scope(list(self._sources(select)))
        evaluation = Evaluation(scope, self._draft.terms)
        names = self._names(select)
        for number, item in enumerate(select.expressions):
            yield from self._of_item(item, evaluation, scope, names(number))

    def _names(self, select: exp.Select) -> Callable[[int], str | None]:
        """The names of items without an alias: their own text."""
        if not self._named:
            return str
        found = item_names(self._text, self._draft.terms.server, Session()) if self._text else []
        return found.__getitem__ if len(found) == len(select.expressions) else lambda _number: None

    def _of_item(
        self, item: exp.Expression, evaluation: Evaluation, scope: Scope, text: str | None
    ) -> Iterator[Column]:
        if isinstance(item, exp.Star):
            yield from map(copied, scope.all())
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            yield from map(copied, scope.of(item.table))
        else:
            inner = item.this if isinstance(item, exp.Alias) else item
            name = item.alias if isinstance(item, exp.Alias) else _own_name(inner) or text
            if not name:
                raise Refused("a column of its query has no certain name")
            yield replace(evaluation.column(inner), name=name)

    # --- FROM ---------------------------------------------------------------------------------------

    def _sources(self, select: exp.Select) -> Iterator[Source]:
        clause = select.args.get("from_")
        if clause is None:
            return
        if isinstance(clause.this, exp.Table) and clause.this.sql().upper() == "DUAL":
            return
        found = [self._source(clause.this)]
        for join in select.args.get("joins") or ():
            found = self._joined(found, join)
        yield from found

    def _joined(self, left: list[Source], join: exp.Join) -> list[Source]:
        right = self._source(join.this)
        side = (join.side or "").upper()
        if side == "LEFT":
            right = right.missing()
        elif side == "RIGHT":
            left = [source.missing() for source in left]
        elif side:
            raise Refused(f"its query has a join that is {side}")
        shares = bool(join.args.get("using")) or join.method == "NATURAL"
        return [*left, replace(right, shares=shares)]

    def _source(self, tree: exp.Expression) -> Source:
        if tree.args.get("joins"):
            raise Refused("its query has joins in parentheses")
        if isinstance(tree, exp.Subquery):
            if tree.args["alias"] is None or tree.args["alias"].columns:
                raise Refused("its query has a derived table of other names")
            columns = _Query(self._draft, "", self._derived).columns(tree.this)
            return Source(name=lowered(tree.alias), columns=tuple(columns))
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            raise Refused("its query takes rows from what is no table")
        return self._table(tree)

    def _table(self, tree: exp.Table) -> Source:
        name = lowered(tree.alias or tree.name)
        if not tree.db and lowered(tree.name) in self._derived:
            return Source(name=name, columns=tuple(self._derived[lowered(tree.name)]))
        full = self._draft.name((tree.db or None, tree.name))
        table = self._draft.visible(full)
        if table is None:
            raise Refused(f"the table {full[0]}.{full[1]} of its query is not known")
        return Source(name=name, columns=table.columns)


def _of_columns(tree: exp.Expression) -> bool:
    """Whether a query's items are columns only."""
    if isinstance(tree, exp.SetOperation):
        return _of_columns(tree.this) and _of_columns(tree.expression)
    if isinstance(tree, exp.Subquery):
        return _of_columns(tree.this)
    return all(
        isinstance(one.this if isinstance(one, exp.Alias) else one, exp.Column | exp.Star)
        for one in tree.expressions
    )


def _own_name(item: exp.Expression) -> str | None:
    """The name of a column, with or without parentheses."""
    while isinstance(item, exp.Paren):
        item = item.this
    return item.name if isinstance(item, exp.Column) else None


_CHANGED = ("text", "blob", "enum", "set", "bit", "json", "geometry", "point")
"""Types that a UNION changes."""


def united(left: Sequence[Column], right: Sequence[Column]) -> list[Column]:
    """Return the columns of a UNION, under the names of the first query.

    Invariant: two columns of the same type keep the type, two texts get the longer length; any other merge
    is refused.
    """
    if len(left) != len(right):
        raise Refused("its query's parts have different numbers of columns")
    return [_one(a, b) for a, b in zip(left, right, strict=True)]


def _one(a: Column, b: Column) -> Column:
    nullable = a.nullable or b.nullable
    if "varbinary(0)" in (a.type, b.type):
        return replace(
            b if a.type == "varbinary(0)" else a, name=a.name, nullable=True, definition=""
        )
    if a.charset is not None and (a.type != b.type or a.collation != b.collation):
        return replace(longest([a, b]), name=a.name, nullable=nullable)
    word = a.type.partition("(")[0]
    if a.type != b.type or word.endswith(_CHANGED) or word in ("char", "binary"):
        raise Refused(f"a UNION of {a.type} and {b.type} in its query is not certain")
    return replace(a, nullable=nullable, definition="")


_ENDS = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "FOR", "INTO", "LOCK",
    "WINDOW", ";", lexer.END,
})  # fmt: skip
_MODIFIERS = frozenset({
    "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_CACHE",
})  # fmt: skip


def item_names(query: str, server: Server, session: Session) -> list[str]:
    """Return the names of the items of a query's first SELECT; none if the query begins with something else.

    Invariant: the name of an item without an alias is its own text; of a string literal, its content.
    """
    reader = Reader(lexed(query, server, session), server, session)
    while reader.take("("):
        pass
    if not reader.take("SELECT"):
        return []
    while reader.take_one(_MODIFIERS):
        pass
    found = [_item(reader)]
    while reader.take(","):
        found.append(_item(reader))
    return found


def _item(reader: Reader) -> str:
    begin = reader.at
    while reader.key not in _ENDS and reader.key not in (",", ")"):
        if reader.key == "(":
            reader.skip_parentheses()
        else:
            reader.at += 1
    if reader.at == begin + 1 and reader.keys[begin] in (lexer.STRING, lexer.NATIONAL):
        return reader.texts[begin]
    if reader.at == begin + 1 and reader.keys[begin] in ("NULL", "TRUE", "FALSE"):
        return reader.keys[begin]
    lexed_text = reader.lexed
    return lexed_text.sql[lexed_text.starts[begin] : lexed_text.ends[reader.at - 1]]
