"""The rules that match a real name best: literal names by dictionary, patterns one after another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tables.rules.mapping.real_name import RealName

Rule = TypeVar("Rule")
Matches = list[tuple[RealName, Rule]]


class TableIndex(Generic[Rule]):
    """Rules by the real names that they list."""

    def __init__(self, entries: Iterable[tuple[RealName, Rule]]) -> None:
        self._literal: dict[tuple[str, str], Matches[Rule]] = {}
        self._patterns: list[tuple[re.Pattern[str], RealName, Rule]] = []
        for name, rule in entries:
            if name.literal:
                key = (name.database.lower(), name.name.lower())
                self._literal.setdefault(key, []).append((name, rule))
            else:
                pattern = re.compile(name.expression, re.IGNORECASE | re.DOTALL)
                self._patterns.append((pattern, name, rule))

    def matches(
        self,
        database: str,
        name: str,
        fits: Callable[[RealName, Rule], bool] | None = None,
    ) -> Matches[Rule]:
        """The matches of the highest rank, one for each rule."""
        own = database.lower()
        found = [one for key in {own, ""} for one in self._literal.get((key, name.lower()), ())]
        found += [
            (real, rule)
            for pattern, real, rule in self._patterns
            if pattern.fullmatch(f"{database}.{name}" if real.database else name)
        ]
        fitting = [one for one in found if fits is None or fits(*one)]
        best = max((real.rank for real, _ in fitting), default=0)
        return list({id(one[1]): one for one in fitting if one[0].rank == best}.values())
