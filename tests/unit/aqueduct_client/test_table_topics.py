"""The topic of a logical table."""

import pytest

from aqueduct_client.errors import InvalidSubscription
from aqueduct_client.table_topics import topics_of


def test_a_table_is_looked_for_in_the_map_before_its_database() -> None:
    mapped = {"trade": "all-trade", "trade.orders": "orders"}
    found = topics_of(["trade.orders", "trade.items", "b.c"], prefix="aq", mapped=mapped)
    assert found == {
        "orders": frozenset({"trade.orders"}),
        "all-trade": frozenset({"trade.items"}),
        "aq.b.c": None,
    }


@pytest.mark.remedy("client.InvalidSubscription")
@pytest.mark.parametrize("tables", [["orders"], [".x"], ["x."], []])
def test_what_names_no_table_is_refused(tables: list[str]) -> None:
    with pytest.raises(InvalidSubscription, match=r"database\.table"):
        topics_of(tables, prefix="aq")
    assert list(topics_of(["trade.orders"], prefix="aq"))


def test_a_tag_is_read_from_its_own_topic_of_each_table() -> None:
    mapped = {"trade": "aq.all-trade"}
    found = topics_of(["trade.items", "b.c"], prefix="aq", mapped=mapped, tag="paid")
    assert found == {
        "aq.__tag.paid.all-trade": frozenset({"trade.items"}),
        "aq.__tag.paid.b.c": None,
    }
