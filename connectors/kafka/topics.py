"""Making topics with stated settings, and refusing those that would lose or disorder what we write.

The law: a topic is written to only after it was made or checked in this process; one with other partitions,
a shorter life or another cleanup than the settings say is refused by name, and so is one that has vanished.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, TopicAlreadyExistsError, for_code

from connectors.errors import KafkaDenied, KafkaLost, KafkaRefused, TopicGone, TopicUnfit
from connectors.kafka.requests import metadata, topic_id
from connectors.kafka.trouble import DENIED, explained

log = logging.getLogger(__name__)

_FOR_EVER = -1
_WARNED: set[tuple[str, str]] = set()
"""What was logged of topics in this process."""
_SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How soon a compacted topic forgets what is superseded, so that reading all of it stays cheap."""

    segment_bytes: int
    """Of a file: a broker compacts all but the newest. No less than a record may have."""
    segment_ms: int
    """The age at which the newest file is closed."""
    dirty_ratio: float
    """The share of bytes not yet compacted from which on a broker compacts."""
    max_lag_ms: int
    """The age at which a record is compacted whatever that share is."""
    delete_retention_ms: int
    """How long the markers of transactions stay once all their records are superseded."""

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
    """How a topic has to be."""

    name: str
    partitions: int
    replication_factor: int
    cleanup_policy: str = "delete"
    retention_ms: int = _FOR_EVER
    max_message_bytes: int
    takes_all: bool = False
    """Whether one that is there must take records of so many bytes."""
    compaction: Compaction | None = None
    """Where it matters how soon a topic is compacted."""

    def command(self) -> str:
        """How a person makes it, in a shell."""
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
        }
        if self.compaction is not None:
            config |= self.compaction.config(self.max_message_bytes)
        return config


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """How a topic is."""

    partitions: int
    config: dict[str, str]


def faults(plan: TopicPlan, facts: TopicFacts) -> Iterator[str]:
    """What is wrong with an existing topic, each with what to do."""
    if facts.partitions != plan.partitions:
        yield (
            f"it has {facts.partitions} partitions, the settings say {plan.partitions}: with another count "
            "a key's changes would be spread over two partitions and lose their order; "
            f"set topics.partitions to {facts.partitions}, or write to a new prefix"
        )
    policies = set(facts.config.get("cleanup.policy", "delete").split(","))
    wanted = set(plan.cleanup_policy.split(","))
    if policies != wanted:
        yield _alter(plan, "cleanup.policy", ",".join(sorted(policies)), plan.cleanup_policy)
    takes = int(facts.config.get("max.message.bytes", plan.max_message_bytes))
    if plan.takes_all and takes < plan.max_message_bytes:
        yield (
            f"max.message.bytes is {takes}, and what is too large is told by topics.max_message_bytes, "
            f"which is {plan.max_message_bytes}; lower that, or: kafka-configs.sh --alter --topic {plan.name} "
            f"--add-config max.message.bytes={plan.max_message_bytes}"
        )
    if "delete" in policies:
        for name, least in (("retention.ms", plan.retention_ms), ("retention.bytes", _FOR_EVER)):
            value = int(facts.config.get(name, _FOR_EVER))
            if value != _FOR_EVER and (least == _FOR_EVER or value < least):
                yield _alter(plan, name, str(value), str(least))


def slow_compaction(plan: TopicPlan, facts: TopicFacts) -> str | None:
    """Which settings let an existing topic grow, with what to do; none of them loses anything."""
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


class Topics:
    """The topics of one installation, as the broker has them."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._ready: set[str] = set()

    async def check(self, *plans: TopicPlan) -> None:
        """Check what is there; each topic once in this object's life. What is missing stays so."""
        async with self._looking(plans):
            pass

    async def ensure(self, *plans: TopicPlan, before: Container[str] = ()) -> None:
        """Make what is missing, and check what is there; a topic that was there ``before`` is not made again.

        Raises TopicGone, TopicUnfit naming every fault, KafkaDenied, KafkaRefused or KafkaLost.
        """
        async with self._looking(plans) as (admin, missing):
            gone = [plan for plan in missing if plan.name in before]
            if gone:
                # A topic that an account may not see is not listed either; this tells the one from the other.
                await _configs(admin, [plan.name for plan in gone], absent=True)
                raise TopicGone(gone[0].command(), topic=gone[0].name)
            if missing:
                await _create(admin, missing)
        self._ready.update(plan.name for plan in plans)

    @asynccontextmanager
    async def _looking(
        self, plans: Iterable[TopicPlan]
    ) -> AsyncIterator[tuple[AIOKafkaAdminClient | None, list[TopicPlan]]]:
        """Check those that are there and were not yet; the others, and whom to ask."""
        wanted = [plan for plan in plans if plan.name not in self._ready]
        if not wanted:
            yield None, []
            return
        async with self._admin() as admin:
            missing = await _missing(admin, wanted)
            self._ready.update(plan.name for plan in wanted if plan not in missing)
            yield admin, missing

    async def has(self, plan: TopicPlan) -> bool:
        """Whether a topic is there; nothing is made. Raises as ``ensure`` does."""
        async with self._admin() as admin:
            return not await _missing(admin, [plan])

    async def id_of(self, name: str) -> str | None:
        """Which topic of this name it is: one that is made anew has another id. None where no broker says."""
        async with self._admin() as admin:
            client = admin._client
            try:
                answer = await client.send(client.get_random_node(), metadata(name))
            except IncompatibleBrokerVersion:
                return None
            return topic_id(answer)

    async def largest(self, name: str) -> int | None:
        """How many bytes of a record batch a topic takes now; None where nobody can tell."""
        try:
            async with self._admin() as admin:
                facts = (await _facts(admin, [name])).get(name)
        except (KafkaDenied, KafkaLost, KafkaRefused):
            return None
        held = facts.config.get("max.message.bytes") if facts else None
        return int(held) if held else None

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        try:
            admin = AIOKafkaAdminClient(**self._options)
            try:
                await admin.start()
                yield admin
            finally:
                await admin.close()
        except (KafkaError, OSError) as error:
            raise await explained(error, self._options) from error


async def _missing(admin: AIOKafkaAdminClient, plans: list[TopicPlan]) -> list[TopicPlan]:
    """Those that are not there; raise TopicUnfit for what is wrong with the others."""
    existing = await _facts(admin, [plan.name for plan in plans])
    found = [
        f"{plan.name}: {fault}"
        for plan in plans
        if plan.name in existing
        for fault in faults(plan, existing[plan.name])
    ]
    if found:
        raise TopicUnfit("".join(f"\n  - {fault}" for fault in found) + "\n")
    for plan in plans:
        if plan.name in existing and (slow := slow_compaction(plan, existing[plan.name])):
            _warn_once(plan.name, slow)
    return [plan for plan in plans if plan.name not in existing]


def _warn_once(topic: str, what: str) -> None:
    """Each run checks its topics anew; the log has each warning once."""
    if (topic, what) not in _WARNED:
        _WARNED.add((topic, what))
        log.warning("topic %s: %s", topic, what)


async def _create(admin: AIOKafkaAdminClient, plans: list[TopicPlan]) -> None:
    answer = await admin.create_topics(
        [
            NewTopic(
                plan.name, plan.partitions, plan.replication_factor, topic_configs=plan.config()
            )
            for plan in plans
        ]
    )
    for name, code, *message in answer.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            detail = (message[0] if message else None) or error.__name__
            refusal = KafkaDenied if issubclass(error, DENIED) else KafkaRefused
            raise refusal(f"the topic cannot be made: {detail}", topic=name)
    await _wait_for_leaders(admin, {plan.name for plan in plans})


async def _wait_for_leaders(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """A topic just made is not at once known to every broker, nor has it a leader."""
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while True:
                described = await admin.describe_topics(sorted(names))
                for topic in described:
                    if issubclass(error := for_code(topic["error_code"]), DENIED):
                        raise error(topic["topic"])
                if all(
                    not topic["error_code"]
                    and all(partition["leader"] >= 0 for partition in topic["partitions"])
                    for topic in described
                ):
                    return
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise KafkaLost(f"topics have no leader: {', '.join(sorted(names))}") from error


async def _facts(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, TopicFacts]:
    all_topics = set(await admin.list_topics())
    known = [name for name in names if name in all_topics]
    if not known:
        return {}
    described = await admin.describe_topics(known)
    partitions = {topic["topic"]: len(topic["partitions"]) for topic in described}
    configs = await _configs(admin, known)
    return {name: TopicFacts(partitions[name], configs.get(name, {})) for name in known}


async def _configs(
    admin: AIOKafkaAdminClient, names: list[str], *, absent: bool = False
) -> dict[str, dict[str, str]]:
    """The settings of topics, by name; of those that are ``absent`` only what is denied is an error."""
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    )
    found: dict[str, dict[str, str]] = {}
    for answer in answers:
        for code, _message, _type, name, entries in answer.resources:
            error = for_code(code)
            if code and (issubclass(error, DENIED) or not absent):
                raise error(name)
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found
