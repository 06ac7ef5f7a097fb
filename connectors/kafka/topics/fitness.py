"""The actual configuration of an existing topic, and its differences from its plan: faults and weaknesses.

Invariant: a fault would lose or disorder records, and the topic is refused; a weakness would lose records
only if a broker is lost, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.kafka.topics.plan import FOR_EVER, TopicPlan

_LEAST_CLOCK_MS = 60_000
"""The least difference of clocks that a topic must allow. A broker that refuses a transaction's marker because
of its time never ends that transaction, and the id cannot begin another one (Kafka 4.1)."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The actual configuration of a topic."""

    partitions: int
    config: dict[str, str]
    replicas: int = 0
    """The number of copies of the partition with the fewest; 0 if not known."""


def faults(plan: TopicPlan, facts: TopicFacts) -> Iterator[str]:
    """Yield the faults of an existing topic, each with what to do."""
    if facts.partitions < plan.partitions or (
        facts.partitions > plan.partitions and not plan.may_have_more
    ):
        yield _partitions_fault(plan, facts.partitions)
    policies = set(facts.config.get("cleanup.policy", "delete").split(","))
    wanted = set(plan.cleanup_policy.split(","))
    if policies != wanted:
        yield _alter(plan, "cleanup.policy", ",".join(sorted(policies)), plan.cleanup_policy)
    takes = int(facts.config.get("max.message.bytes", plan.max_message_bytes))
    if plan.takes_all and takes < plan.max_message_bytes:
        yield (
            f"max.message.bytes is {takes}, and oversize records are detected by topics.max_message_bytes, "
            f"which is {plan.max_message_bytes}; lower that, or: kafka-configs.sh --alter --topic {plan.name} "
            f"--add-config max.message.bytes={plan.max_message_bytes}"
        )
    if facts.config.get("message.timestamp.type", "CreateTime") == "CreateTime":
        for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
            value = int(facts.config.get(name, _LEAST_CLOCK_MS))
            if value < _LEAST_CLOCK_MS:
                yield (
                    f"{name} is {value}, and a transaction whose marker is later than that never ends: "
                    f"kafka-configs.sh --alter --topic {plan.name} --add-config {name}={_HOUR_MS}"
                )
    if "delete" in policies and not plan.keeps_retention:
        for name, least in (("retention.ms", plan.retention_ms), ("retention.bytes", FOR_EVER)):
            value = int(facts.config.get(name, FOR_EVER))
            if value != FOR_EVER and (least == FOR_EVER or value < least):
                yield _alter(plan, name, str(value), str(least))


def _partitions_fault(plan: TopicPlan, found: int) -> str:
    fault = f"it has {found} partitions, and {plan.partitions} are wanted: with another count "
    fault += "a key's changes would be spread over two partitions and lose their order; "
    if found > plan.partitions:
        return (
            f"{fault}if nobody raised it by hand, set topics.partitions to {found}, with which it was made; "
            "else write to new topics, by another prefix"
        )
    return (
        f"{fault}if topics.partitions was raised, set it back to {found}; if nothing was written to the topic "
        f"yet: kafka-topics.sh --alter --topic {plan.name} --partitions {plan.partitions}; "
        "else write to new topics, by another prefix"
    )


def slow_compaction(plan: TopicPlan, facts: TopicFacts) -> str | None:
    """Return the settings that let an existing topic grow, with what to do; they lose no record."""
    if plan.compaction is None:
        return None
    wanted = plan.compaction.config(plan.max_message_bytes)
    found = {name: facts.config.get(name) for name in wanted}
    larger = {
        name: value
        for name, value in found.items()
        if value is not None and float(value) > float(wanted[name])
    }
    if not larger:
        return None
    return (
        f"{', '.join(f'{name} is {value}' for name, value in larger.items())}, so superseded records stay "
        f"longer and a takeover without a checkpoint takes longer; kafka-configs.sh --alter --topic "
        f"{plan.name} --add-config {','.join(f'{name}={wanted[name]}' for name in larger)}"
    )


def _alter(plan: TopicPlan, name: str, value: str, wanted: str) -> str:
    return (
        f"{name} is {value}, where {wanted} is wanted, so what is still needed would be removed: "
        f"kafka-configs.sh --alter --topic {plan.name} --add-config {name}={wanted}"
    )


# The durability of an existing topic: why it may lose records if a broker fails, and what to do.
#
# Invariant: a weak topic is written to nevertheless; stopping would not make its records safer.


def weaknesses(plan: TopicPlan, facts: TopicFacts) -> Iterator[str]:
    """Yield the reasons why an existing topic may lose records if a broker fails, each with what to do."""
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
