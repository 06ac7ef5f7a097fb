"""The topic of notes about groups, where a cluster does not allow all of its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.client import AIOKafkaClient

from aqueduct_client import kafka
from aqueduct_client.errors import BrokersDenied, BrokersLost, BrokersRefused
from aqueduct_client.protocol import TopicFacts
from aqueduct_client.records import Partition
from aqueduct_client.subscribe import subscribe_async
from connectors.kafka import error_mapping
from tests.kafka_server import KafkaServer, kafka_server

_API_VERSIONS = 18
_DENIED, _INVALID_CONFIG, _POLICY_VIOLATION = 29, 40, 44


class Cluster:
    """Brokers whose answer depends on the settings of a topic."""

    def __init__(self, code: int, allowed: Collection[str]) -> None:
        self.code, self.allowed = code, set(allowed)
        self.asked: list[dict[str, str]] = []
        self.made: dict[str, dict[str, str]] = {}
        self._client = None

    def __call__(self, **_: Any) -> Cluster:
        return self

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def create_topics(self, wanted: list[NewTopic]) -> Any:
        (topic,) = wanted
        self.asked.append(topic.topic_configs)
        if refused := topic.topic_configs.keys() - self.allowed:
            text = f"not allowed: {', '.join(sorted(refused))}"
            return SimpleNamespace(topic_errors=[(topic.name, self.code, text)])
        self.made[topic.name] = topic.topic_configs
        return SimpleNamespace(topic_errors=[(topic.name, 0, None)])

    async def described(self, _: Any, names: Collection[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(None, 1) for name in names if name in self.made}


async def appended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the topic, without a record."""
    monkeypatch.setattr(kafka, "AIOKafkaAdminClient", cluster)
    monkeypatch.setattr(kafka, "described", cluster.described)
    await kafka.kafka_append({"bootstrap_servers": "127.0.0.1:1"}, "aq.__subscribers", [])


@pytest.mark.parametrize("code", [_INVALID_CONFIG, _POLICY_VIOLATION])
async def test_settings_that_a_cluster_does_not_allow_are_omitted_with_a_warning(
    code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(code, {"cleanup.policy", "retention.ms"})
    await appended(cluster, monkeypatch)
    assert cluster.made == {"aq.__subscribers": {"cleanup.policy": "compact"}}
    assert "not allowed: min.cleanable.dirty.ratio, segment.bytes, segment.ms" in caplog.text
    assert "topic=aq.__subscribers" in caplog.text


async def test_all_settings_are_asked_for_where_they_are_allowed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(_INVALID_CONFIG, kafka._COMPACTED)
    await appended(cluster, monkeypatch)
    assert cluster.asked == [kafka._COMPACTED]
    assert caplog.text == ""


async def test_a_topic_that_may_not_be_made_at_all_is_an_error_with_the_clusters_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(_POLICY_VIOLATION, ())
    with pytest.raises(BrokersRefused, match=r"cannot be made: not allowed: cleanup\.policy"):
        await appended(cluster, monkeypatch)
    cluster = Cluster(_DENIED, ())
    with pytest.raises(BrokersDenied, match=r"cannot be made.*__logical_schemas"):
        await appended(cluster, monkeypatch)
    assert len(cluster.asked) == 1


async def test_a_group_at_a_broker_that_names_no_broker_yet_is_a_lost_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # aiokafka as a program of a subscriber has it: the worker's package has changed it in this process.
    monkeypatch.setattr(AIOKafkaClient, "coordinator_lookup", error_mapping._look_up)
    async with kafka_server(KafkaServer()) as broker:
        group = kafka.KafkaGroup(
            options=broker.options, group="billing", topics=frozenset({"aq.shop.orders"})
        )
        async with group(lambda _: None) as member:
            with pytest.raises(BrokersLost, match="names no broker"):
                await member.committed([Partition("aq.shop.orders", 0)])
            with pytest.raises(BrokersLost):
                await member.topics({"aq.shop.orders"})


async def test_another_assertion_of_a_library_is_passed_on() -> None:
    with pytest.raises(AssertionError), kafka.translated():
        raise AssertionError("state")


async def test_an_answer_that_does_not_come_in_time_is_a_lost_kafka() -> None:
    async with (
        asyncio.timeout(25),
        kafka_server(KafkaServer(nameless=0)) as broker,
        kafka.kafka_log(broker.options, lambda: 0.2) as opened,
    ):
        broker.is_silent = True
        with pytest.raises(BrokersLost, match="no answer within 0 s"):
            await opened.bounds(Partition("aq.shop.orders", 0))


async def test_a_silent_broker_is_reported_once_the_connect_timeout_is_over() -> None:
    async with kafka_server(KafkaServer(is_silent=True)) as broker:
        brokers = broker.options["bootstrap_servers"]
        subscriber = subscribe_async("a.b", group="g", brokers=brokers, connect_timeout=2)
        # aiokafka gives a broker 40 s for each answer.
        async with asyncio.timeout(25):
            with pytest.raises(BrokersLost, match="no answer within 2 s"):
                await subscriber.__aenter__()


async def test_a_get_returns_in_time_while_a_silent_broker_is_joined_and_raises_at_the_limit() -> (
    None
):
    async with kafka_server(KafkaServer(is_silent=True)) as broker:
        brokers = broker.options["bootstrap_servers"]
        turn = SimpleNamespace(is_mine=True, mine=mine, close=closed)
        made = subscribe_async("a.b", group="g", brokers=brokers, connect_timeout=3, turn=turn)
        async with asyncio.timeout(25), made as subscriber:
            assert len(await subscriber.get_without_ack(timeout=0.1)) == 0
            assert len(await subscriber.get_without_ack(timeout=0.1)) == 0
            # It is one attempt still, which outlives the calls.
            assert broker.asked == [_API_VERSIONS]
            with pytest.raises(BrokersLost):
                await subscriber.get_without_ack(timeout=60)


async def mine(_seconds: float) -> bool:
    return True


async def closed() -> None:
    pass
