"""Topics that may lose records with a broker: which are, and how they are shown."""

from dataclasses import replace
from typing import Any

import pytest

from app import metrics
from app.worker.destination.takeover.takeover import shows_weak_topics
from app.worker.status import DestinationStatus
from connectors.kafka.topics import TopicFacts, TopicPlan, weaknesses

PLAN = TopicPlan(name="aq.shop.orders", partitions=4, replication_factor=3, max_message_bytes=1024)


def described(plan: TopicPlan = PLAN, /, *, replicas: int = 3, **config: Any) -> list[str]:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return list(weaknesses(plan, TopicFacts(4, plan.config() | named, replicas)))


def test_a_topic_as_we_make_it_is_durable() -> None:
    config = PLAN.config()
    assert config["min.insync.replicas"] == "2"
    assert config["unclean.leader.election.enable"] == "false"
    assert described() == []
    for copies in (1, 2):
        few = replace(PLAN, replication_factor=copies)
        assert few.config()["min.insync.replicas"] == "1"
        assert described(few, replicas=copies) == []


@pytest.mark.parametrize(
    ("replicas", "config", "remedy"),
    [
        (1, {}, "topics.replication_factor is 3"),
        (3, {"min_insync_replicas": "1"}, "--add-config min.insync.replicas=2"),
        (
            3,
            {"unclean_leader_election_enable": "true"},
            "--add-config unclean.leader.election.enable=false",
        ),
    ],
)
def test_a_weaker_topic_is_named_with_what_repairs_it(
    replicas: int, config: dict[str, Any], remedy: str
) -> None:
    found = described(replicas=replicas, **config)
    assert any(remedy in one for one in found), found


def test_a_topic_that_some_brokers_write_nothing_to_is_named() -> None:
    (found,) = described(replace(PLAN, replication_factor=1), replicas=1, min_insync_replicas="2")
    assert "some brokers take no record" in found


def test_weak_topics_are_shown_and_counted_until_they_are_repaired() -> None:
    status = DestinationStatus("weak-shop")
    report = shows_weak_topics(status)
    for number in range(30):
        report(f"aq.shop.t{number}", ("it has 1 copy",))
    warnings = status.to_json()["warnings"]
    assert warnings[0] == "topic aq.shop.t0: it has 1 copy"
    assert warnings[-1] == "10 more of this kind"
    assert value() == 30
    for number in range(30):
        report(f"aq.shop.t{number}", ())
    assert status.to_json()["warnings"] == []
    assert value() == 0


def value() -> float | None:
    return metrics.REGISTRY.get_sample_value("aqueduct_topics_weak", {"destination": "weak-shop"})
