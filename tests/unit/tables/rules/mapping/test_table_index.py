from __future__ import annotations

import re
from typing import Any, cast

from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import LogicalTable


class _Counted:
    """A pattern that counts its attempts."""

    def __init__(self) -> None:
        self.attempts = 0

    def fullmatch(self, _text: str) -> re.Match[str] | None:
        self.attempts += 1
        return None


def test_five_thousand_tables_try_each_pattern_once_a_table() -> None:
    names = [f"t_{at}" for at in range(5_000)]
    mapping = Mapping(tables=tuple(LogicalTable(name=one, real=(f"d.{one}",)) for one in names))
    counted = _Counted()
    index = cast(Any, mapping._tables)
    assert index._patterns == []
    index._patterns.append((counted, RealName.of_table("x+"), None))
    for _ in range(3):
        assert all(mapping.of(("d", one)) for one in names)
    assert counted.attempts == len(names)
