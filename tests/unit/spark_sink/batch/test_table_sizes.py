"""Which tables are large, and when their size is read again."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from spark_sink.batch.contents import TablePart
from spark_sink.batch.table_merge import TableSizes
from spark_sink.spark.jobs import LARGE, MANY
from spark_sink.warehouse.protocol import Facts, Name

SMALL, GROWN = ("shop", "small"), ("shop", "grown")


class _Facts:
    """Tables with sizes, which notes which are asked for."""

    def __init__(self) -> None:
        self.sizes: dict[Name, int] = {}
        self.asked: Counter[Name] = Counter()

    def size(self, name: Name) -> int:
        self.asked[name] += 1
        return self.sizes.get(name, 0)


def part(name: Name, rows: int = 1) -> TablePart:
    return TablePart(name, ops=Counter(c=rows))


def test_a_batch_is_executed_for_its_largest_part_or_for_a_large_table() -> None:
    facts: Any = _Facts()
    facts.sizes = {SMALL: LARGE - 1, GROWN: LARGE}
    sizes = TableSizes(facts=cast(Facts, facts), merged=Counter())
    assert sizes.rows([part(("shop", "new"), 3), part(SMALL, 5)]) == 5
    assert sizes.rows([part(SMALL), part(GROWN)]) == MANY
    assert sizes.rows([part(GROWN, 3 * MANY)]) == 3 * MANY
    assert sizes.rows([]) == 0


def test_a_table_that_grows_is_found_out_after_some_merges() -> None:
    facts: Any = _Facts()
    merged: Counter[Name] = Counter()
    sizes = TableSizes(facts=cast(Facts, facts), merged=merged)
    assert sizes.rows([part(GROWN)]) == 1
    facts.sizes[GROWN] = LARGE
    found = []
    for _ in range(60):
        merged[GROWN] += 1
        found.append(sizes.rows([part(GROWN)]))
    assert found == [1] * 49 + [MANY] * 11
    assert facts.asked[GROWN] == 2
