"""The items of a query's SELECT list as written, which name its columns.

Invariant: the name of an item without an alias is its own text, that of a string literal its
content.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.lexer import lexed
from connectors.mysql.ddl.grammar.token_reader import Reader

_ENDS = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "FOR", "INTO", "LOCK",
    "WINDOW", ";", lexer.END,
})  # fmt: skip
_MODIFIERS = frozenset({
    "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_CACHE",
})  # fmt: skip


def item_names(query: str, server: Server, session: Session) -> list[str]:
    """The items of the first SELECT in a query; none if it does not begin with one."""
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
