"""The required and actual configuration of a topic, and which differences are faults or weaknesses.

Invariant: a fault would lose or disorder what is written, and stops; a weakness would lose it only
with a broker, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_FOR_EVER = -1
_DURABLE_REPLICAS = 3
"""Copies from which on a broker may fail although a record must be on two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How soon a compacted topic removes superseded records, so that reading all of it stays cheap."""

    segment_bytes: int
    """The size of a file: a broker compacts all but the newest. At least the size of a record."""
    segment_ms: int
    """The age at which the newest file is closed."""
    dirty_ratio: float
    """The share of bytes not yet compacted at which a broker compacts."""
    max_lag_ms: int
    """The age at which a record is compacted, regardless of that share."""
    delete_retention_ms: int
    """How long transaction markers are kept once all their records are superseded."""

    def config(self, max_message_bytes: int) -> dict[str, str]:
        """The topic's settings."""
        return {
            "segment.bytes": str(max(self.segment_bytes, max_message_bytes)),
            "segment.ms": str(self.segment_ms),
            "min.cleanable.dirty.ratio": str(self.dirty_ratio),
            "max.compaction.lag.ms": str(self.max_lag_ms),
            "delete.retention.ms": str(self.delete_retention_ms),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The required configuration of a topic."""

    name: str
    partitions: int
    replication_factor: int
    cleanup_policy: str = "delete"
    retention_ms: int = _FOR_EVER
    max_message_bytes: int
    may_have_more: bool = False
    """Whether one with more partitions is accepted: its keys stay in the first ``partitions``."""
    takes_all: bool = False
    """Whether an existing one must accept records of so many bytes."""
    compaction: Compaction | None = None
    """Set if it matters how soon a topic is compacted."""

    @property
    def in_sync(self) -> int:
        """The number of copies that a record must have before it counts as written."""
        return 2 if self.replication_factor >= _DURABLE_REPLICAS else 1

    def command(self) -> str:
        """The shell command that creates it."""
        config = " ".join(f"--config {name}={value}" for name, value in self.config().items())
        return (
            f"kafka-topics.sh --create --topic {self.name} --partitions {self.partitions} "
            f"--replication-factor {self.replication_factor} {config}"
        )

    def config(self) -> dict[str, str]:
        """The topic's settings at creation."""
        config = {
            "cleanup.policy": self.cleanup_policy,
            "retention.ms": str(self.retention_ms),
            "retention.bytes": str(_FOR_EVER),
            "max.message.bytes": str(self.max_message_bytes),
            "min.insync.replicas": str(self.in_sync),
            "unclean.leader.election.enable": "false",
        }
        if self.compaction is not None:
            config |= self.compaction.config(self.max_message_bytes)
        return config


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
    if "delete" in policies:
        for name, least in (("retention.ms", plan.retention_ms), ("retention.bytes", _FOR_EVER)):
            value = int(facts.config.get(name, _FOR_EVER))
            if value != _FOR_EVER and (least == _FOR_EVER or value < least):
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


def slow_compaction(plan: TopicPlan, facts: TopicFacts) -> str | None:
    """Return the settings that let an existing topic grow, with what to do; none of them loses anything."""
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
