"""Topics that no two tables share, and names of changes."""

from connectors.wire import change_id, row_topic


def test_names_are_encoded_as_the_contract_shows() -> None:
    assert row_topic("aq", "shop", "order_items") == "aq.shop.order_items"
    assert row_topic("aq", "x_y", "z") == "aq.x--y.z"
    assert row_topic("aq", "x", "y_z") == "aq.x.y_z"
    assert row_topic("aq", "a-b", "Zoë") == "aq.a-2db.Zo-c3-ab"


def test_a_name_that_is_cut_is_the_same_forever() -> None:
    topic = row_topic("aq", "d", "\u4e00" * 64)
    assert len(topic) == 249
    assert topic.endswith("-x83f2aff396160843321ff8da9a83ee5a")


def test_a_change_is_named_as_the_contract_shows() -> None:
    assert change_id("u:23", 0) == "u:23#0"
    assert change_id("u:23", 4, 1) == "u:23#4/1"
