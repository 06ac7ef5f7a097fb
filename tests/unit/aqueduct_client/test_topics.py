"""The topic of a logical table."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_client import subscribe, topics
from aqueduct_client.errors import InvalidSubscription
from connectors import wire


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=70), st.text(min_size=1, max_size=70))
def test_a_tables_own_topic_is_the_one_that_the_worker_writes_to(database: str, table: str) -> None:
    assert topics.table_topic("aq", database, table) == wire.row_topic("aq", database, table)


def test_the_client_and_the_worker_agree_on_names() -> None:
    assert topics.schemas_topic("aq") == wire.schemas_topic("aq")
    assert topics.MAX_TOPIC_LENGTH == wire.MAX_TOPIC_LENGTH


def test_a_table_is_looked_for_in_the_map_before_its_database() -> None:
    mapped = {"trade": "all-trade", "trade.orders": "orders"}
    found = topics.topics_of(["trade.orders", "trade.items", "b.c"], prefix="aq", mapped=mapped)
    assert found == {
        "orders": frozenset({"trade.orders"}),
        "all-trade": frozenset({"trade.items"}),
        "aq.b.c": None,
    }


@pytest.mark.remedy("client.InvalidSubscription")
@pytest.mark.parametrize("tables", [["orders"], [".x"], ["x."], []])
def test_what_names_no_table_is_refused(tables: list[str]) -> None:
    with pytest.raises(InvalidSubscription, match=r"database\.table"):
        topics.topics_of(tables, prefix="aq")
    assert list(topics.topics_of(["trade.orders"], prefix="aq"))


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=90), st.text(min_size=1, max_size=90))
def test_the_topic_of_a_tag_is_the_one_that_the_worker_writes_to(table: str, tag: str) -> None:
    own = wire.row_topic("aq", "trade", table)
    assert topics.tag_topic("aq", own, tag) == wire.tag_topic("aq", own, tag)
    assert len(wire.tag_topic("aq", own, tag)) <= wire.MAX_TOPIC_LENGTH


def test_a_tag_is_read_from_its_own_topic_of_each_table() -> None:
    mapped = {"trade": "aq.all-trade"}
    found = topics.topics_of(["trade.items", "b.c"], prefix="aq", mapped=mapped, tag="paid")
    assert found == {
        "aq.__tag.paid.all-trade": frozenset({"trade.items"}),
        "aq.__tag.paid.b.c": None,
    }


def test_brokers_with_an_account_are_refused_since_errors_print_them() -> None:
    with pytest.raises(InvalidSubscription, match="without user and password") as caught:
        subscribe("trade.orders", group="g", brokers="u:hunter2@127.0.0.1:9092")
    assert "hunter2" not in str(caught.value)
