"""Topics that no two tables share, and names of changes."""

from connectors.wire import change_id, row_topic, tag_topic


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


def test_a_change_is_named_as_the_contract_shows() -> None:
    assert change_id("u:23", 0) == "u:23#0"
    assert change_id("u:23", 4, 1) == "u:23#4/1"
