"""The durability of an existing topic: why it may lose records if a broker fails, and what to do.

Invariant: a weak topic is written to nevertheless; stopping would not make its records safer.
"""

from __future__ import annotations

from collections.abc import Iterator

from connectors.kafka.topics.fitness import TopicFacts
from connectors.kafka.topics.plan import TopicPlan


def weaknesses(plan: TopicPlan, facts: TopicFacts) -> Iterator[str]:
    """Yield why an existing topic may lose records with a broker, each with what to do."""
    if 0 < facts.replicas < plan.replication_factor:
        yield (
            f"it has {_copies(facts.replicas)} of each partition, topics.replication_factor is "
            f"{plan.replication_factor}: kafka-reassign-partitions.sh adds copies; or lower the setting"
        )
    in_sync = facts.config.get("min.insync.replicas")
    if in_sync is not None and int(in_sync) < plan.in_sync:
        yield _set(plan, "min.insync.replicas", in_sync, str(plan.in_sync))
    if in_sync is not None and 0 < facts.replicas < int(in_sync):
        yield (
            f"min.insync.replicas is {in_sync}, more than its {_copies(facts.replicas)}, and some brokers take "
            f"no record then: kafka-configs.sh --alter --topic {plan.name} "
            f"--add-config min.insync.replicas={facts.replicas}"
        )
    if facts.config.get("unclean.leader.election.enable", "false") != "false":
        yield _set(plan, "unclean.leader.election.enable", "true", "false")


def _copies(count: int) -> str:
    return f"{count} {'copy' if count == 1 else 'copies'}"


def _set(plan: TopicPlan, name: str, value: str, wanted: str) -> str:
    return (
        f"{name} is {value}, {wanted} is durable: "
        f"kafka-configs.sh --alter --topic {plan.name} --add-config {name}={wanted}"
    )
