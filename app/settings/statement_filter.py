"""The filter of statements on the DDL topic, by type, and the rules for shadow tables.

Invariant: this decides only what is published; the effect of a statement on tables is tracked in any case.
"""

from __future__ import annotations

import re

from connectors.mysql.ddl.online import RULES, Role, ShadowRules, rule

_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
_OBJECTS = frozenset(
    {
        "TABLE", "DATABASE", "INDEX", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "SEQUENCE",
        "PACKAGE", "LIBRARY",
    }
)  # fmt: skip
_SYNONYMS = {"SCHEMA": "DATABASE"}


class StatementTypes:
    """Two comma-separated lists of types, such as ``ALTER TABLE, CREATE INDEX``; unknown ones raise ValueError.

    A verb alone stands for all types that begin with it. An empty ``include`` includes all types.
    """

    def __init__(self, include: str = "", exclude: str = "") -> None:
        self._include = _types(include)
        self._exclude = _types(exclude)

    def publishes(self, statement_type: str) -> bool:
        """Whether statements of a type such as ``ALTER TABLE`` are published."""
        names = {statement_type, statement_type.partition(" ")[0]}
        return (not self._include or bool(names & self._include)) and not names & self._exclude


def _types(text: str) -> frozenset[str]:
    return frozenset(_type(part) for part in text.split(",") if part.strip())


def _type(text: str) -> str:
    words = [_SYNONYMS.get(word, word) for word in text.upper().split()]
    fits = len(words) in (1, 2) and words[0] in _VERBS and not set(words[1:]) - _OBJECTS
    if not fits:
        raise ValueError(
            f"{text.strip()!r} is no type of statement; one is CREATE, ALTER, DROP, RENAME or TRUNCATE, "
            f"alone or with {', '.join(sorted(_OBJECTS))}"
        )
    return " ".join(words)


def shadow_rules(*, never: str = "", also: str = "") -> ShadowRules:
    """Return the shadow rules of the settings; raise ValueError for an invalid expression.

    ``never`` has expressions over ``database.table`` for tables that are no shadows. ``also`` has expressions
    over a shadow's name, with a group ``table`` for the real table's name. Both are separated by commas.
    """
    own = [rule(part, Role.GHOST) for part in _parts(also)]
    for each in own:
        if "table" not in each.pattern.groupindex:
            raise ValueError(f"{each.pattern.pattern!r} has no group (?P<table>…)")
    try:
        return ShadowRules((*own, *RULES), never=_parts(never))
    except re.error as error:
        raise ValueError(f"{never!r} has what is no regular expression: {error}") from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
