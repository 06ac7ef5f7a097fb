"""The offsets of other programs' groups, at a broker that has only begun to start."""

import pytest

from connectors.errors import KafkaLost
from connectors.kafka import group_positions
from connectors.kafka.group_positions import members, store_offsets
from tests.kafka_server import KafkaServer, kafka_server


async def test_offsets_are_not_stored_where_no_broker_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_positions, "_ANSWER_SECONDS", 0.3)
    async with kafka_server(KafkaServer()) as broker:
        with pytest.raises(KafkaLost, match="names no broker"):
            await store_offsets(broker.options, "billing", {("aq.shop.orders", 0): 4})


async def test_the_members_of_a_group_are_not_known_where_no_broker_is_named() -> None:
    async with kafka_server(KafkaServer()) as broker:
        with pytest.raises(KafkaLost):
            await members(broker.options, "billing")
