"""The required configuration of a topic."""

from __future__ import annotations

from dataclasses import dataclass

FOR_EVER = -1
"""The value of Kafka's settings for no limit."""
_DURABLE_REPLICAS = 3
"""The number of copies from which on a record must be on two of them, and a broker may still fail."""


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
    retention_ms: int = FOR_EVER
    max_message_bytes: int
    may_have_more: bool = False
    """Whether an existing topic may have more partitions: keys stay in the first ``partitions``."""
    keeps_retention: bool = False
    """Whether an existing topic keeps its own retention."""
    takes_all: bool = False
    """Whether an existing topic must accept records of ``max_message_bytes``."""
    compaction: Compaction | None = None
    """Set if it matters how soon a topic is compacted."""

    @property
    def in_sync(self) -> int:
        """The number of copies that a record must have before it counts as written."""
        return 2 if self.replication_factor >= _DURABLE_REPLICAS else 1

    def command(self) -> str:
        """Return the shell command that creates the topic."""
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
            "retention.bytes": str(FOR_EVER),
            "max.message.bytes": str(self.max_message_bytes),
            "min.insync.replicas": str(self.in_sync),
            "unclean.leader.election.enable": "false",
        }
        if self.compaction is not None:
            config |= self.compaction.config(self.max_message_bytes)
        return config
