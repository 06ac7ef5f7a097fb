"""The lookup of the tables of online changes: correct, and without a scan of all names."""

from collections.abc import Collection, Iterator

import pytest

from connectors.mysql.ddl.definition import Table, TableChange, TableName
from connectors.mysql.ddl.online import (
    Logical,
    Noise,
    Shadow,
    ShadowRules,
    TableMovedAway,
    TableNames,
    logical,
)

LONG = "a" * 64


class Counted(ShadowRules):
    """Counts how many names it is asked of."""

    asked = 0

    def ghost_of(self, name: TableName) -> set[TableName | None]:
        self.asked += 1
        return super().ghost_of(name)

    def shadow(self, name: TableName, known: Collection[TableName]) -> Shadow | None:
        self.asked += 1
        return super().shadow(name, known)


class NeverWhole(TableNames):
    """Cannot be gone through."""

    def __iter__(self) -> Iterator[TableName]:
        raise AssertionError("all tables were gone through")


def dropped(name: TableName, there: TableNames, rules: ShadowRules) -> Logical:
    there.discard(name)
    old = Table(columns=(), charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
    change = TableChange(name=name, old=old, new=None)
    (result,) = logical([change], rules, known=there, before=lambda _: None)
    return result


@pytest.mark.parametrize("count", [10, 3000])
def test_a_drop_asks_of_as_many_names_however_many_tables_there_are(count: int) -> None:
    rules = Counted()
    there = NeverWhole(rules, [("shop", f"orders_{number}") for number in range(count)])
    there.update([("shop", "_orders_7_gho"), ("shop", "_orders_8_new")])
    assert rules.asked == count + 2
    rules.asked = 0
    assert isinstance(dropped(("shop", "orders_1"), there, rules), TableChange)
    assert isinstance(dropped(("shop", "orders_7"), there, rules), TableMovedAway)
    assert isinstance(dropped(("shop", "_orders_8_new"), there, rules), Noise)
    assert isinstance(dropped(("shop", "orders_8"), there, rules), TableChange)
    assert rules.asked <= 16


@pytest.mark.parametrize(
    ("ghost", "table", "tool"),
    [
        ("_t_gho", "t", "gh-ost"),
        ("___t_new", "t", "pt-online-schema-change or Spirit"),
        ("___t_new", "__t", "pt-online-schema-change or Spirit"),
        (f"_{'a' * 59}_gho", LONG, "gh-ost"),
        (f"_{'b' * 62}_", "b" * 62, "pt-online-schema-change"),
        ("lhmn_t", "t", "LHM"),
        ("_t_del", "t", None),
        ("_t_ghc", "t", None),
        ("_t_gho", "u", None),
        ("_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_", "t", None),
    ],
)
def test_a_ghost_waits_for_its_table_until_it_goes(
    ghost: str, table: str, tool: str | None
) -> None:
    there = TableNames(ShadowRules(), [("shop", ghost), ("other", "_t_gho"), ("shop", "plain")])
    assert there.waiting_tool(("shop", table)) == tool
    assert ("shop", ghost) in there
    assert len(there) == 3
    there.discard(("shop", ghost))
    there.discard(("shop", ghost))
    assert there.waiting_tool(("shop", table)) is None
    assert len(there) == 2
