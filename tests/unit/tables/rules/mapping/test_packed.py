"""A mapping as a decoder keeps it."""

from __future__ import annotations

import pickle

import pytest

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import PackedMapping
from tables.rules.routes.routes import Routes

TEXT = """
databases: {trade: {from: ['shop_[0-9]+'], topic: all}}
tables: {trade.orders: {tags: {'': order}}, a.x: {from: [b.y], topic: own}}
"""
TABLES = (("shop_1", "orders"), ("shop_2", "items"), ("b", "y"), ("crm", "people"))


def put_to_rest(packed: PackedMapping) -> None:
    """Call ``rest`` until it has an effect; fail if it has none."""
    for _ in range(100):
        packed.rest()
    assert not packed.is_unpacked


def test_it_answers_as_the_mapping_also_after_it_was_packed_again() -> None:
    mapping = from_yaml(TEXT)
    packed = pickle.loads(pickle.dumps(PackedMapping.of_mapping(mapping)))
    assert not packed.is_unpacked
    for _ in range(2):
        assert packed.tables == mapping.tables
        assert [packed.of(one) for one in TABLES] == [mapping.of(one) for one in TABLES]
        assert packed.owner_of_topic("all") == mapping.owner_of_topic("all") == "database trade"
        with pytest.raises(MappingError, match="does not list it"):
            packed.of(("trade", "orders"))
        assert packed.is_unpacked
        put_to_rest(packed)


def test_it_stays_in_memory_while_it_is_asked() -> None:
    packed = PackedMapping.of_mapping(from_yaml(TEXT))
    for _ in range(100):
        packed.of(("b", "y"))
        packed.rest()
        assert packed.is_unpacked


def test_routes_sent_to_a_decoder_have_it_packed_and_know_the_tables_they_have_met() -> None:
    routes = Routes(prefix="aq", destination="m1", mapping=from_yaml(TEXT))
    sent = pickle.loads(pickle.dumps(routes))
    assert [sent.of(one) for one in TABLES] == [routes.of(one) for one in TABLES]
    packed = sent.mapping
    assert isinstance(packed, PackedMapping)
    for _ in range(100):
        sent.rest()
    assert not packed.is_unpacked
    assert [sent.of(one) for one in TABLES] == [routes.of(one) for one in TABLES]
    assert not packed.is_unpacked
    # A table that is met later, and a decoder's own message to another process.
    assert sent.topic(("shop_9", "late")) == "aq.all"
    assert pickle.loads(pickle.dumps(sent)).topic(("shop_9", "late")) == "aq.all"
