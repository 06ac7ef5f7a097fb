"""The tables of a statement that the grammar does not support.

Invariant: names in the positions of table names are returned, rather one too many than one too few;
nothing here determines the effect on a table.
"""

from __future__ import annotations

import re

from connectors.mysql.ddl.grammar.token_reader import GrammarFault, Reader
from connectors.mysql.ddl.statement.table_ref import TableRef

_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
_NAME = r"(?:`((?:[^`]|``)+)`|\"([^\"]+)\"|([\w$]+))"
_TABLE = re.compile(
    rf"\b(?:TABLES?|ON|TO|LIKE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_NAME}(?:\s*\.\s*{_NAME})?",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z_]+")
_EXECUTABLE = re.compile(r"/\*M?!\d*|\*/")
"""The delimiters of comments that some server executes."""
_FOLLOWED = frozenset({"TABLE", "TABLES", "TO", "AS"})


def guessed_type(sql: str) -> str:
    """The first two words."""
    return " ".join(_WORDS.findall(sql)[:2]).upper()


def named_tables(reader: Reader) -> list[TableRef]:
    """The likely table names in a statement that the reader is at the start of."""
    while reader.take("SET", "STATEMENT"):
        while reader.key not in ("FOR", ""):
            reader.at += 1
        reader.take("FOR")
    verb = reader.take_one(_VERBS)
    return [] if verb is None else _names_after(reader, verb)


def _names_after(reader: Reader, verb: str) -> list[TableRef]:
    """The names after TABLE, or ON for an index; for RENAME and DROP, all of the list."""
    found: list[TableRef] = []
    wanted = _FOLLOWED | (
        {","} if verb in ("DROP", "RENAME") else {"ON"} if verb != "ALTER" else set()
    )
    if verb == "TRUNCATE" and reader.key != "TABLE":
        found += _one(reader)
    while reader.key != "":
        if reader.take_one(frozenset(wanted)):
            found += _one(reader)
            if verb in ("CREATE", "TRUNCATE"):
                break
        else:
            reader.at += 1
    return found


def _one(reader: Reader) -> list[TableRef]:
    _ = reader.take("IF", "NOT", "EXISTS") or reader.take("IF", "EXISTS")
    start = reader.at
    try:
        return [reader.table()]
    except GrammarFault:
        reader.at = start
        return []


def tables_by_pattern(sql: str) -> list[TableRef]:
    """The same for a text that the lexer cannot split into tokens."""
    sql = _EXECUTABLE.sub(" ", sql)
    if (verb := _WORDS.search(sql)) is None or verb[0].upper() not in _VERBS:
        return []
    found: list[TableRef] = []
    for match in _TABLE.finditer(sql):
        first, second = ("".join(part or "" for part in match.groups()[n : n + 3]) for n in (0, 3))
        found.append((first, second) if second else (None, first))
    return found
