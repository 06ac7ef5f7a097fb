"""Names of row topics that settings state: as Debezium and Kafka Connect make them, and none for two tables."""

from __future__ import annotations

import pickle

import pytest

from app.settings.model import RowTopicSettings
from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.rules.routes.topic_names import TopicRename, TopicRule

DEBEZIUMS = TopicRule(topic="inv_shop.{database}.{table}")


def topic(*rules: TopicRule, table: tuple[str, str]) -> str:
    return Routes(prefix="inv", row_topics=rules).topic(table)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (("inv_shop", "items"), "inv_shop.inv_shop.items"),
        (("my-db", "it ems$"), "inv_shop.my-db.it_ems_"),
        (("d", "Größe"), "inv_shop.d.Gr__e"),
        (("d", "\U0001d11e"), "inv_shop.d.__"),
        (("d", "{table}"), "inv_shop.d._table_"),
        (("d", "x" * 300), f"inv_shop.d.{'x' * 238}"),
    ],
)
def test_a_name_has_an_underscore_for_each_of_javas_characters_that_kafka_refuses(
    table: tuple[str, str], name: str
) -> None:
    assert topic(DEBEZIUMS, table=table) == name


@pytest.mark.parametrize(
    ("regex", "replacement", "name"),
    [
        (r"([^.]+)\.([^.]+)\.([^.]+)", "$3", "orders_1"),
        (r"(.*)\.(?<table>orders)_(\d+)", r"all-${table}\$", "all-orders$"),
        (r"[^.]+\.orders_1", "never", "p.shop.orders_1"),
        (r"(.*)orders(.*)", "$1all$2", "p.shop.all_1"),
    ],
)
def test_topics_are_renamed_as_kafka_connect_does_where_the_whole_name_matches(
    regex: str, replacement: str, name: str
) -> None:
    if "?<" in regex:
        regex = regex.replace("?<", "?P<")
    rename = TopicRename(regex=regex, replacement=replacement)
    rule = TopicRule(topic="{prefix}.{database}.{table}", renames=(rename,))
    if "$" in name:
        assert rename.of("p.shop.orders_1") == name
        return
    assert Routes(prefix="p", row_topics=(rule,)).topic(("shop", "orders_1")) == name


def test_the_first_rule_of_a_table_counts_and_the_others_have_our_own_names() -> None:
    one = TopicRule(tables=r"shop\.a.*", topic="first", shared=True)
    two = TopicRule(tables=r"shop\..*", topic="{database}_{table}")
    assert topic(one, two, table=("shop", "ab")) == "first"
    assert topic(one, two, table=("shop", "b")) == "shop_b"
    assert topic(one, two, table=("a_b", "c")) == "inv.a--b.c"


@pytest.mark.parametrize("name", ["inv.__ddl.shop", "__consumer_offsets", ".."])
def test_a_name_that_is_reserved_or_none_is_refused_with_its_table(name: str) -> None:
    with pytest.raises(MappingError, match=r"shop\.t the topic"):
        topic(TopicRule(topic=name), table=("shop", "t"))


def test_a_mappings_topic_comes_first_and_existing_topics_keep_their_partitions() -> None:
    mapping = from_yaml("tables: {shop.orders: {topic: sold}, shop.items: {columns: [id]}}")
    routes = Routes(
        prefix="inv",
        mapping=mapping,
        row_topics=(DEBEZIUMS,),
        partitions=4,
        existing={"inv_shop.shop.t": 1, "inv.sold": 3},
    )
    routes = pickle.loads(pickle.dumps(routes))
    found = {name: routes.of(("shop", name)) for name in ("orders", "items", "t", "u")}
    assert {name: (one.topic, one.partitions) for name, one in found.items() if one} == {
        "orders": ("inv.sold", 3),
        "items": ("inv_shop.shop.items", 4),
        "t": ("inv_shop.shop.t", 1),
        "u": ("inv_shop.shop.u", 4),
    }


@pytest.mark.parametrize(
    ("stated", "fault"),
    [
        ({"topic": "{schema}.x"}, "{schema} is unknown"),
        ({"topic": "x", "renames": [{"regex": "(", "replacement": ""}]}, "no regular expression"),
        ({"topic": "x", "renames": [{"regex": "a", "replacement": "$1"}]}, "no regular expression"),
        ({"topic": "x", "tables": "("}, "not a regular expression"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_by_the_settings(
    stated: dict[str, object], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault.replace("{", r"\{")):
        RowTopicSettings.model_validate(stated)
