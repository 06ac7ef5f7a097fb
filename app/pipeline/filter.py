"""Which tables are captured.

The law: a table is captured if an include expression matches all of ``database.table`` and no black one does,
without regard to case, as in Canal. A filtered event still moves the cursor.
"""

from __future__ import annotations

import re


class TableFilter:
    """Canal's two lists of expressions with commas; raise ValueError where one is no expression."""

    def __init__(self, include: str, black: str) -> None:
        self._include = _expressions(include)
        self._black = _expressions(black)
        self._known: dict[tuple[str, str], bool] = {}

    def captures(self, database: str, table: str) -> bool:
        """Whether rows of this table are published."""
        name = (database, table)
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._judge(f"{database}.{table}")
        return known

    def _judge(self, name: str) -> bool:
        return any(expression.fullmatch(name) for expression in self._include) and not any(
            expression.fullmatch(name) for expression in self._black
        )


def _expressions(text: str) -> list[re.Pattern[str]]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(re.compile(part, re.IGNORECASE | re.DOTALL))
        except re.error as error:
            raise ValueError(f"{part!r} is not a regular expression: {error}") from None
    return found
