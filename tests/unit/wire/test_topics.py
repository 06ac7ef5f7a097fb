"""Topics: no two tables share one, and each is found again by its pattern."""

import re

import pytest

from wire.topics import (
    ddl_pattern,
    ddl_topic,
    exact_pattern,
    installations,
    merged_topic,
    published_topic,
    row_pattern,
    row_topic,
    shard_topic,
    tag_topic,
    transactions_pattern,
    transactions_topic,
)


def test_names_are_encoded_as_the_contract_shows() -> None:
    assert row_topic("aq", "shop", "order_items") == "aq.shop.order_items"
    assert row_topic("aq", "x_y", "z") == "aq.x--y.z"
    assert row_topic("aq", "x", "y_z") == "aq.x.y_z"
    assert row_topic("aq", "a-b", "Zoë") == "aq.a-2db.Zo-c3-ab"


def test_a_name_that_is_cut_is_the_same_forever() -> None:
    topic = row_topic("aq", "d", "\u4e00" * 64)
    assert len(topic) == 249
    assert topic.endswith("-x83f2aff396160843321ff8da9a83ee5a")


def test_the_topics_of_two_tags_differ_also_where_kafka_takes_a_dot_for_an_underscore() -> None:
    assert tag_topic("aq", "aq.trade", "paid") == "aq.__tag.paid.trade"
    names = [("aq.x.trade", "paid"), ("aq.trade", "paid_x"), ("aq.trade", "paid-x")]
    found = {tag_topic("aq", topic, tag).replace(".", "_") for topic, tag in names}
    assert len(found) == len(names)


@pytest.mark.parametrize(
    ("topic", "matches"),
    [
        ("a.q.shop.orders", True),
        ("a.q.x--y.order_items", True),
        ("a.q.__schemas", False),
        ("a.q.__transactions.shop", False),
        ("a.q.__ddl.shop", False),
        ("aXq.shop.orders", False),
        ("a.q.shop.__orders", True),
        ("a.q.trade", True),
        ("a.q.trade_all.orders.x", True),
        ("a.q", False),
        ("other.shop.orders", False),
    ],
)
def test_only_row_topics_of_the_prefix_are_read(topic: str, matches: bool) -> None:
    assert (re.fullmatch(row_pattern("a.q"), topic) is not None) == matches
    assert (re.search(row_pattern("a.q"), topic) is not None) == matches
    assert re.search(row_pattern("a.q"), f"test-{topic}") is None


def test_include_and_exclude_narrow_the_topics() -> None:
    pattern = row_pattern("aq", include=r"aq\.shop\..*|aq\.crm\..*", exclude=r".*\.log_.*")
    topics = ["aq.shop.a", "aq.crm.b", "aq.hr.c", "aq.shop.log_x"]
    assert [t for t in topics if re.search(pattern, t)] == ["aq.shop.a", "aq.crm.b"]
    assert [t for t in topics if re.fullmatch(pattern, t)] == ["aq.shop.a", "aq.crm.b"]


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        (ddl_pattern("a.q"), ddl_topic("a.q", "shop-1")),
        (transactions_pattern("a.q"), transactions_topic("a.q", "shop-1")),
        (exact_pattern("a.q.__schemas"), "a.q.__schemas"),
    ],
)
def test_own_topics_are_found_by_their_pattern_alone(pattern: str, topic: str) -> None:
    assert re.search(pattern, topic)
    for other in (topic.replace(".", "X", 1), f"x.{topic}", "a.q.shop.orders", "a.q.__journal"):
        assert re.search(pattern, other) is None


def test_a_share_of_a_merge_is_read_in_the_topic_that_the_merge_writes() -> None:
    share = shard_topic("aq.eu", "shop", "aq.eu.trade")
    assert share == "aq.eu.__shard.shop.trade"
    assert merged_topic("aq.eu", "shop", share) == published_topic("shop", share) == "aq.eu.trade"
    for topic in ("aq.eu.trade", shard_topic("aq.eu", "other", "aq.eu.trade"), ""):
        assert merged_topic("aq.eu", "shop", topic) == published_topic("shop", topic) == topic


def test_installations_are_known_by_their_schemas_topic_or_their_journal() -> None:
    names = ["aq.__schemas", "aq.__journal", "aq.eu.__journal", "a.__schemas", "b.__schemas", "x"]
    assert installations(names) == {"aq", "aq.eu", "a", "b"}
