"""Routes: the tables that have one, its contents, and its equality after pickling."""

from __future__ import annotations

import pickle

import pytest

from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Route, Routes
from wire.topics import merged_topic

SHOP = Routes(prefix="aq", include=r"shop\..*", black=r"shop\.secret", partitions=3)


def test_a_captured_table_has_a_route_and_another_has_none() -> None:
    assert SHOP.of(("shop", "order_items")) == Route(
        table=("shop", "order_items"),
        logical=("shop", "order_items"),
        topic="aq.shop.order_items",
        partitions=3,
    )
    assert SHOP.of(("shop", "secret")) is None
    assert SHOP.of(("crm", "people")) is None


def test_a_table_is_captured_if_it_has_a_route() -> None:
    for name in (("shop", "t"), ("shop", "secret"), ("crm", "t")):
        assert SHOP.captures(*name) is (SHOP.of(name) is not None)
    assert SHOP.may_capture_of("shop")
    assert not SHOP.may_capture_of("crm")


def test_the_topic_of_a_table_that_is_not_captured_is_not_made_up() -> None:
    assert SHOP.topic(("shop", "t")) == "aq.shop.t"
    with pytest.raises(LookupError, match=r"shop\.secret is not captured"):
        SHOP.topic(("shop", "secret"))


def test_routes_are_equal_by_their_settings_and_travel_without_what_was_asked_before() -> None:
    asked = Routes(prefix="aq", include=r"shop\..*", black=r"shop\.secret", partitions=3)
    plain = pickle.dumps(asked)
    for number in range(100):
        asked.of(("shop", f"t{number}"))
    assert asked == SHOP
    assert pickle.dumps(asked) == plain
    assert pickle.loads(plain).of(("shop", "t")) == asked.of(("shop", "t"))


def test_the_tables_that_were_asked_about_are_kept_up_to_a_bound() -> None:
    mapping = from_yaml("tables: {trade.orders: {from: [shop.t1]}}")
    routes = Routes(prefix="aq", black=r"shop\..*[1-9]0", mapping=mapping)
    first = routes.of(("shop", "t1"))
    for number in range(50_000):
        routes.of(("shop", f"t{number}"))
    assert len(routes._known) <= 20_000
    assert len(mapping._known) <= 20_000
    assert routes.of(("shop", "t1")) == first
    assert routes.of(("shop", "t10")) is None


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        Routes(prefix="aq", include="shop.(")


def test_a_merged_destination_publishes_mapped_tables_to_topics_of_its_own() -> None:
    mapping = from_yaml(
        "tables: {trade.orders: {from: ['shop.orders_[0-3]'], topic: trade}, trade.items: {from: [shop.items]}}"
    )
    routes = Routes(prefix="aq", destination="east", mapping=mapping, merged=True)
    topics = {table: routes.topic(("shop", table)) for table in ("orders_2", "items", "other")}
    assert topics == {
        "orders_2": "aq.__shard.east.trade",
        "items": "aq.__shard.east.trade.items",
        # What no rule names has no other shard.
        "other": "aq.shop.other",
    }
    merged = [merged_topic("aq", "east", topics[table]) for table in ("orders_2", "items")]
    assert merged == ["aq.trade", "aq.trade.items"]
