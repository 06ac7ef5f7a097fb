"""Routes under a mapping: topics, keys and collisions."""

from __future__ import annotations

import pickle

import pytest

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Route, Routes


def routes(text: str, *, black: str = "") -> Routes:
    return Routes(prefix="aq", black=black, partitions=4, destination="m1", mapping=from_yaml(text))


def route(text: str, database: str, table: str) -> Route:
    found = routes(text).of((database, table))
    assert found is not None
    if found.fault:
        raise MappingError(found.fault)
    return found


SHARDS = "{databases: {trade: {from: ['shop_[0-9]+']}}}"


def test_a_mapped_table_has_the_row_topic_of_its_logical_name() -> None:
    found = route(SHARDS, "shop_3", "orders")
    assert found.table == ("shop_3", "orders")
    assert found.logical == ("trade", "orders")
    assert found.topic == "aq.trade.orders"
    assert found.shard == ("m1", "shop_3", "orders")
    assert routes(SHARDS).topic(("crm", "people")) == "aq.crm.people"


def test_a_topic_of_the_mapping_is_under_the_prefix_with_its_own_partitions() -> None:
    text = "{databases: {trade: {from: [s1, s2], topic: all}}, tables: {trade.x: {partitions: 9}}}"
    assert route(text, "s1", "x").topic == route(text, "s2", "y").topic == "aq.all"
    assert route(text, "s1", "x").partitions == route(text, "s2", "y").partitions == 9


@pytest.mark.parametrize(
    ("table", "record_format"),
    [
        (("a", "x"), "maxwell"), (("a", "y"), "canal"), (("a", "z"), "canal"), (("b", "x"), "debezium"),
        (("c", "z"), "debezium"),
    ],
)  # fmt: skip
def test_a_format_is_that_of_the_table_else_of_the_logical_database(
    table: tuple[str, str], record_format: str
) -> None:
    text = "{databases: {a: {format: canal}, b: {}}, tables: {a.x: {format: maxwell}, y: {}}}"
    assert route(text, *table).format == record_format


@pytest.mark.parametrize(
    ("rule", "table", "published"),
    [
        ("", "x", "omit"), ("", "other", "omit"), ("truncates: record", "x", "record"),
        ("operations: [insert]", "x", "omit"),
    ],
)  # fmt: skip
def test_a_rule_about_truncates_precedes_the_destinations(
    rule: str, table: str, published: str
) -> None:
    mapping = from_yaml(f"{{tables: {{s1.x: {{{rule}}}}}}}")
    found = Routes(prefix="aq", mapping=mapping, truncates="omit").of(("s1", table))
    assert found is not None
    assert (found.truncates, found.publishes_truncates) == (published, published != "omit")
    assert route(f"{{tables: {{s1.x: {{{rule}}}}}}}", "s1", "other").truncates == "record"


def test_a_rule_for_any_database_has_the_format_of_the_topic_that_it_shares() -> None:
    text = "{databases: {a: {topic: t}}, tables: {x: {format: canal}}}"
    assert route(text, "b", "x").format == "canal"
    with pytest.raises(
        MappingError, match=r"table x has the format canal, and database a, .* debezium"
    ):
        route(text, "a", "x")


@pytest.mark.parametrize(
    ("text", "table", "has_shard"),
    [
        ("{databases: {trade: {from: [s1]}}}", ("s1", "x"), False),
        ("{databases: {trade: {from: [s1, s2]}}}", ("s1", "x"), True),
        ("{databases: {trade: {from: ['s.']}}}", ("s1", "x"), True),
        ("{databases: {trade: {from: [s1], topic: t}}}", ("s1", "x"), True),
        ("{tables: {x: {from: [x1]}}}", ("s1", "x1"), False),
        ("{tables: {x: {from: [x1], topic: t}}}", ("s1", "x1"), True),
        ("{tables: {x: {from: [s1.x1], topic: t}}}", ("s1", "x1"), False),
        ("{tables: {x: {from: [x1, x2]}}}", ("s1", "x1"), True),
        ("{tables: {x: {from: ['x\\d']}}}", ("s1", "x1"), True),
        ("{tables: {x: {from: ['x\\d'], shard_in_key: never}}}", ("s1", "x1"), False),
        ("{tables: {x: {from: [s1.x1], shard_in_key: always}}}", ("s1", "x1"), True),
        ("{tables: {x: {from: [s1.x1], topic: t, share_topic: true}}}", ("s1", "x1"), True),
    ],
)
def test_keys_name_the_real_table_where_rules_may_bring_several_together(
    text: str, table: tuple[str, str], *, has_shard: bool
) -> None:
    assert (route(text, *table).shard is not None) is has_shard


def test_a_key_without_the_real_table_is_refused_where_tables_share_a_topic() -> None:
    text = "{databases: {trade: {from: [s1], topic: t}}, tables: {x: {shard_in_key: never}}}"
    with pytest.raises(MappingError, match="shard_in_key: never"):
        route(text, "s1", "x")


@pytest.mark.parametrize(
    ("text", "table", "fault"),
    [
        ("{tables: {x: {topic: 'shop_orders'}}}", ("shop", "orders"), "the topic of table x"),
        ("{tables: {shop.x: {from: [s1.x]}}}", ("shop", "x"), "which does not list it"),
        ("{tables: {x: {from: [x1]}}}", ("shop", "X"), "which does not list it"),
        ("{databases: {trade: {from: [s1]}}}", ("trade", "y"), "the name of a logical one"),
    ],
)
def test_a_table_that_would_reach_anothers_topic_is_refused(
    text: str, table: tuple[str, str], fault: str
) -> None:
    with pytest.raises(MappingError, match=fault):
        route(text, *table)
    assert routes(text, black=r".*\..*").of(table) is None


def test_a_rule_filters_its_own_real_tables() -> None:
    text = r"{tables: {x: {from: ['x.*'], include: 's\..*', black: '.*_tmp'}}}"
    assert routes(text).of(("s", "x1")) is not None
    assert routes(text).of(("s", "x_tmp")) is None
    assert routes(text).of(("t", "x1")) is None


def test_routes_with_a_mapping_are_equal_after_pickling() -> None:
    asked = routes(SHARDS)
    asked.of(("shop_1", "t"))
    copy = pickle.loads(pickle.dumps(asked))
    assert copy == asked
    assert copy.of(("shop_1", "t")) == asked.of(("shop_1", "t"))


def test_a_statement_is_published_if_one_of_its_captured_tables_lets_it() -> None:
    text = "{tables: {x: {from: [s.x], ddl: [drop]}, y: {from: [s.y], ddl: [drop, alter]}}}"
    made = routes(text, black=r"s\.black")
    x, y, plain, black = (("s", name) for name in ("x", "y", "plain", "black"))
    assert made.omitted_statements == {"create", "alter", "rename", "truncate"}
    assert made.publishes_statement("drop", [x])
    assert not made.publishes_statement("alter", [x])
    assert made.publishes_statement("alter", [x, y])
    assert not made.publishes_statement("rename", [x, y])
    assert made.publishes_statement("rename", [x, plain])
    assert not made.publishes_statement("rename", [x, black])
    assert made.publishes_statement("rename", [black])
    assert made.publishes_statement("create", [])
    assert routes(SHARDS).omitted_statements == frozenset()


def test_a_share_of_a_merged_topic_with_too_long_a_name_is_refused() -> None:
    text = f"{{databases: {{s: {{topic: {'t' * 236}}}}}}}"
    merged = Routes(prefix="aq", destination="m1", mapping=from_yaml(text), merged=True)
    with pytest.raises(MappingError, match=r"aq\.__shard\.m1\.t+, from which .* 249 characters"):
        merged.topic(("s", "x"))
    assert merged.of(("other", "x")) is not None


def test_a_table_that_two_rules_match_is_captured_without_a_topic_and_hides_all_of_its_values() -> (
    None
):
    two = "{tables: {a: {from: ['o[r]d']}, b: {from: ['[o]rd']}}}"
    found = routes(two).of(("s", "ord"))
    assert found is not None
    assert "have the same rank" in found.fault
    assert (found.topics, found.masks) == ((), True)
    with pytest.raises(MappingError, match="same rank"):
        routes(two).topic(("s", "ord"))
