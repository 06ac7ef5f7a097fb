"""Topics: their required configuration, their creation, and refusal of topics that would lose records.

Invariant: a topic is written to only after it was created or checked in this process. A topic with another
number of partitions, a shorter retention or another cleanup policy than the settings require is refused by
name, and so is a topic that has vanished. A topic that would lose records only if a broker is lost is
reported, and written to nevertheless: stopping would not make its records safer.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    BrokerResponseError,
    IncompatibleBrokerVersion,
    InvalidPartitionsError,
    KafkaError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from connectors.errors import (
    AqueductError,
    Faults,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    Retry,
    TooFewBrokers,
    TopicGone,
    TopicUnfit,
)
from connectors.kafka.error_mapping import answered, explained, translated
from connectors.kafka.protocol_requests import in_sync, may_write, metadata, topic_ids

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


_MARKER_BYTES = 128
"""More bytes than the batch of a transaction's marker has (78). A broker drops a marker that it cannot append,
and the transaction stays open until the broker is started again, with a larger limit."""


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
    for name in ("max.message.bytes", "segment.bytes"):
        value = int(facts.config.get(name, _MARKER_BYTES))
        if value < _MARKER_BYTES and not (plan.takes_all and name == "max.message.bytes"):
            yield (
                f"{name} is {value}, and a transaction whose marker is larger than that never ends: "
                f"kafka-configs.sh --alter --topic {plan.name} --add-config {name}={plan.max_message_bytes}"
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


MOST_PARTITIONS = 1000
"""The number of partitions that one request creates; the next request follows once they have leaders. A KRaft
controller refuses more than 10,000 at once ("Excessively large number of partitions per request"), and handles
other requests in between."""
MOST_NAMES = 500
"""The number of topics in one metadata request."""
_SETTLE_SECONDS = 30.0
_NO_SUCH_TOPIC, _NO_LEADER, _DENIED, _ALREADY_EXISTS = 3, 5, 29, 36
_LATEST = -1


async def make(
    admin: AIOKafkaAdminClient, plans: Iterable[TopicPlan], *, made: Callable[[str], None]
) -> dict[str, AqueductError]:
    """Create topics, and report each once its leaders accept records; return those that the broker refuses.

    A topic that another client has created meanwhile counts as created.
    """
    refused: dict[str, AqueductError] = {}
    for portion in portions(plans):
        refused |= await _create(admin, portion)
        names = [plan.name for plan in portion if plan.name not in refused]
        if names:
            await _led(admin, names)
        for name in names:
            made(name)
    return refused


async def more_partitions(
    admin: AIOKafkaAdminClient, counts: Mapping[str, int]
) -> dict[str, AqueductError]:
    """Raise the partition counts of existing topics with fewer; return once all partitions accept records.

    Another client may do the same at the same time. The topics that the broker refuses are returned.
    """
    wanted, refused = await _smaller(admin, counts)
    for name, count in wanted.items():
        # One request for each: aiokafka raises the first error of a request, and hides what it did for others.
        try:
            await admin.create_partitions({name: NewPartitions(count)})
        except BrokerResponseError as error:
            if isinstance(error, InvalidPartitionsError):
                again, _ = await _smaller(admin, {name: count})
                if name not in again:
                    continue
            found = translated(error)
            if isinstance(found, KafkaDenied):
                found = KafkaDenied(found.detail, remedy="Grant it Alter on the topic.")
            refused[name] = found
    for name, one in refused.items():
        one.context["topic"] = name
    if grown := [*wanted.keys() - refused.keys()]:
        await _led(admin, grown)
    return refused


async def _smaller(
    admin: AIOKafkaAdminClient, counts: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, AqueductError]]:
    """The topics that exist with fewer partitions than ``counts``, with their counts; and errors by topic."""
    known, refused = await _seen(admin, [*counts])
    found = {name: len(topic["partitions"]) for name, topic in known.items()}
    smaller = {name: count for name, count in counts.items() if found.get(name, count) < count}
    return smaller, refused


def portions(plans: Iterable[TopicPlan]) -> Iterator[list[TopicPlan]]:
    """The plans of each request, in their order; a single topic may exceed the limit by itself."""
    portion: list[TopicPlan] = []
    partitions = 0
    for plan in plans:
        if portion and partitions + plan.partitions > MOST_PARTITIONS:
            yield portion
            portion, partitions = [], 0
        portion.append(plan)
        partitions += plan.partitions
    if portion:
        yield portion


async def _create(admin: AIOKafkaAdminClient, plans: list[TopicPlan]) -> dict[str, AqueductError]:
    answer = await admin.create_topics(
        [
            NewTopic(
                plan.name, plan.partitions, plan.replication_factor, topic_configs=plan.config()
            )
            for plan in plans
        ]
    )
    return {
        name: _refusal(name, code, *message)
        for name, code, *message in answer.topic_errors
        if code not in (0, _ALREADY_EXISTS)
    }


def _refusal(name: str, code: int, message: str | None = None) -> AqueductError:
    return answered(
        code, f"the topic cannot be created: {message or 'no reason given'}", topic=name
    )


async def _led(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until each partition has a leader that is ready.

    Metadata names a leader before that broker has created the partition's log; until then it
    refuses records.
    """
    waiting = set(names)
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while waiting:
                waiting = await _unled(admin, sorted(waiting))
                if waiting:
                    await asyncio.sleep(0.05)
    except TimeoutError as error:
        shown = ", ".join(sorted(waiting)[:5])
        raise KafkaLost(f"{len(waiting)} topics have no leader yet: {shown}") from error


async def described(admin: AIOKafkaAdminClient, names: list[str] | None) -> list[dict[str, Any]]:
    """Return the metadata of the topics among these that exist; with None, of all topics.

    The client's own request would make brokers with auto.create.topics.enable create the missing topics,
    with the brokers' defaults.
    """
    topics = await _metadata(admin, names)
    for topic in topics:
        if topic["error_code"] not in (0, _NO_LEADER):
            raise for_code(topic["error_code"])(topic["topic"])
    return topics


async def _metadata(admin: AIOKafkaAdminClient, names: list[str] | None) -> list[dict[str, Any]]:
    """The metadata of the topics among these that exist, or about which the broker answers with an error."""
    request = MetadataRequest(names, allow_auto_topic_creation=False)
    topics: list[dict[str, Any]] = (await admin._send_request(request)).to_object()["topics"]
    return [topic for topic in topics if topic["error_code"] != _NO_SUCH_TOPIC]


async def _seen(
    admin: AIOKafkaAdminClient, names: list[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, AqueductError]]:
    """The metadata of the existing topics among these, and the errors of those that may not be seen."""
    known: dict[str, dict[str, Any]] = {}
    refused: dict[str, AqueductError] = {}
    for some in _sliced(names):
        for topic in await _metadata(admin, some):
            name, code = topic["topic"], topic["error_code"]
            if code in (0, _NO_LEADER):
                known[name] = topic
            else:
                refused[name] = translated(for_code(code)(name))
    return known, refused


async def _unled(admin: AIOKafkaAdminClient, names: list[str]) -> set[str]:
    """The topics with a partition that does not accept records yet."""
    known = await described(admin, names)
    found = set(names) - {topic["topic"] for topic in known}
    leaders: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for topic in known:
        name = topic["topic"]
        if topic["error_code"] or any(each["leader"] < 0 for each in topic["partitions"]):
            found.add(name)
            continue
        for each in topic["partitions"]:
            leaders[each["leader"]][name].append((each["partition"], _LATEST))
    for node, partitions in leaders.items():
        found |= await _unready(admin, node, dict(partitions))
    return found


async def _unready(
    admin: AIOKafkaAdminClient, node: int, partitions: dict[str, list[tuple[int, int]]]
) -> set[str]:
    """The topics with a partition that this broker does not yet lead."""
    request: Any = OffsetRequest(-1, 0, list(partitions.items()))
    try:
        answer = await admin._send_request(request, node)
    except KafkaError:
        return set(partitions)
    return {topic for topic, partitions in answer.topics if any(code for _, code, *_ in partitions)}


log = logging.getLogger(__name__)

_WARNED: set[tuple[str, str]] = set()
"""The warnings logged in this process."""

Report = Callable[[str, tuple[str, ...]], None]
"""Receives a topic's name and its weaknesses, if any."""


class Topics:
    """The topics of one installation, as the broker has them."""

    def __init__(self, options: Mapping[str, Any], *, report: Report | None = None) -> None:
        self._options = options
        self._ready: set[str] = set()
        self._report = report

    async def check(self, *plans: TopicPlan) -> None:
        """Check existing topics, each once in this object's life. Missing ones are not created."""
        if wanted := self._unchecked(plans):
            async with self._admin() as admin:
                _raise_first((await self._looked_at(admin, wanted))[1])

    async def ensure(self, *plans: TopicPlan, before: Container[str] = ()) -> None:
        """Create missing topics, and check existing ones; a topic that existed ``before`` is not created again.

        Raise TopicGone, TopicUnfit naming every fault, KafkaDenied, KafkaRefused or KafkaLost.
        """
        _raise_first(await self._ensured(plans, before))

    async def unfit(
        self, *plans: TopicPlan, before: Container[str] = ()
    ) -> dict[str, AqueductError]:
        """Do as ``ensure``, in as few requests; return the topics that cannot be used, each with its own error.

        Raise KafkaLost, and KafkaDenied if the account may not connect.
        """
        return _of_topics(await self._ensured(plans, before))

    async def _ensured(
        self, plans: Iterable[TopicPlan], before: Container[str]
    ) -> dict[str, AqueductError]:
        wanted = self._unchecked(plans)
        if not wanted:
            return {}
        async with self._admin() as admin:
            missing, found = await self._looked_at(admin, wanted)
            lost = {plan.name: plan for plan in missing if plan.name in before}
            # Some brokers report a topic as missing if the account may not see it.
            denied = await _denied(admin, [*lost]) if lost else {}
            for name, plan in lost.items():
                found[name] = denied.get(name) or TopicGone(
                    plan.command(),
                    topic=name,
                    remedy=TopicGone.remedy.replace("TOPIC", shlex.quote(name)),
                )
            new = [plan for plan in missing if plan.name not in lost]
            refused = await make(admin, new, made=self._ready.add)
            # Errors that only an operator can correct come first: the others may resolve by themselves.
            return found | dict(
                sorted(refused.items(), key=lambda one: one[1].retry is Retry.TIMED)
            )

    def _unchecked(self, plans: Iterable[TopicPlan]) -> list[TopicPlan]:
        return [plan for plan in plans if plan.name not in self._ready]

    def forget(self, names: Iterable[str]) -> None:
        """Check these topics again at their next use: they may have been altered since."""
        self._ready.difference_update(names)

    async def digests(self, names: Collection[str]) -> dict[str, str]:
        """Return a digest of the settings of each of these topics that exists and whose settings may be read.

        Raise KafkaLost.
        """
        try:
            async with self._admin() as admin:
                found, refused = await _facts(admin, sorted(names))
        except (KafkaDenied, KafkaRefused):
            return {}
        _of_topics(refused)
        return {
            name: sha256(repr((one.partitions, sorted(one.config.items()))).encode()).hexdigest()
            for name, one in found.items()
        }

    async def grow(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
        """Raise the partition counts of existing topics with fewer; return the topics that refuse it, and why.

        Raise KafkaLost, and KafkaDenied if the account may not connect.
        """
        async with self._admin() as admin:
            return _of_topics(await more_partitions(admin, counts))

    async def counts(self) -> dict[str, int]:
        """Return the partition counts of all topics that the account may see."""
        async with self._admin() as admin:
            return {
                topic["topic"]: len(topic["partitions"]) for topic in await described(admin, None)
            }

    async def has(self, plan: TopicPlan) -> bool:
        """Whether a topic exists; nothing is created. Raise as ``ensure`` does."""
        async with self._admin() as admin:
            missing, found = await self._looked_at(admin, [plan])
            _raise_first(found)
            return not missing

    async def id_of(self, name: str) -> str | None:
        """Return a topic's id, which differs once the topic is recreated; None if no broker reports it."""
        return (await self.ids([name])).get(name)

    async def ids(self, names: Collection[str]) -> dict[str, str]:
        """Return the ids of the topics among these that exist; empty if the brokers report no ids.

        Raise KafkaDenied, KafkaRefused or KafkaLost.
        """
        found: dict[str, str] = {}
        if not names:
            return found
        async with self._admin() as admin:
            client = admin._client
            for some in _sliced(sorted(names)):
                try:
                    answer = await client.send(client.get_random_node(), metadata(some))
                except IncompatibleBrokerVersion:
                    return {}
                for name, code, number in topic_ids(answer):
                    if code not in (0, _NO_SUCH_TOPIC, _NO_LEADER):
                        raise for_code(code)(name)
                    if code == 0:
                        found[name] = number
        return found

    async def unwritable(self, names: Collection[str]) -> dict[str, AqueductError]:
        """Return the existing topics among these that cannot be written to, each with the reason.

        KafkaDenied: the account may not write to a topic, or not see it or its settings. TooFewBrokers: a
        partition takes no records now.

        Raise KafkaDenied, KafkaRefused or KafkaLost.
        """
        found: dict[str, AqueductError] = {}
        if not names:
            return found
        async with self._admin() as admin:
            client = admin._client
            for some in _sliced(sorted(names)):
                request = metadata(some, rights=True)
                try:
                    answer = await client.send(client.get_random_node(), request)
                except IncompatibleBrokerVersion:
                    return found
                found |= await _offline(admin, answer)
                for name, code, is_allowed in may_write(answer):
                    if code == _DENIED or (code == 0 and not is_allowed):
                        found[name] = KafkaDenied(
                            "the account may not write to it",
                            topic=name,
                            remedy="Grant it Write on the topic.",
                        )
        return found

    async def largest(self, name: str) -> int | None:
        """Return the most bytes of a record batch that a topic accepts now; None if that cannot be read.

        It is the smaller of max.message.bytes and segment.bytes.
        """
        try:
            async with self._admin() as admin:
                facts = (await _facts(admin, [name]))[0].get(name)
        except (KafkaDenied, KafkaLost, KafkaRefused):
            return None
        config = facts.config if facts else {}
        limits = [config.get(name) for name in ("max.message.bytes", "segment.bytes")]
        return min((int(held) for held in limits if held), default=None)

    async def _looked_at(
        self, admin: AIOKafkaAdminClient, plans: list[TopicPlan]
    ) -> tuple[list[TopicPlan], dict[str, AqueductError]]:
        """The plans of topics that do not exist; and the errors of those that are unfit or may not be seen."""
        existing, found = await _facts(admin, [plan.name for plan in plans])
        missing = [plan for plan in plans if plan.name not in existing.keys() | found.keys()]
        for plan in plans:
            facts = existing.get(plan.name)
            if facts is None:
                continue
            if wrong := [f"{plan.name}: {fault}" for fault in faults(plan, facts)]:
                found[plan.name] = TopicUnfit(Faults.listed("", wrong))
            else:
                self._ready.add(plan.name)
                self._warn(plan, facts)
        return missing, found

    def _warn(self, plan: TopicPlan, facts: TopicFacts) -> None:
        weak = tuple(weaknesses(plan, facts))
        slow = slow_compaction(plan, facts)
        for what in (*weak, *([slow] if slow else [])):
            _warn_once(plan.name, what)
        if self._report is not None:
            self._report(plan.name, weak)

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


def _warn_once(topic: str, what: str) -> None:
    """Log a warning once, although each run checks its topics again."""
    if (topic, what) not in _WARNED:
        _WARNED.add((topic, what))
        log.warning("topic %s: %s", topic, what)


def _of_topics(found: dict[str, AqueductError]) -> dict[str, AqueductError]:
    """Return errors by topic; raise an error that is not the topic's own, since it resolves by itself."""
    for error in found.values():
        if isinstance(error, KafkaLost) and not isinstance(error, TooFewBrokers):
            raise error
    return found


def _raise_first(found: Mapping[str, AqueductError]) -> None:
    """Raise the first error, if there is one; all faults of unfit topics are one error."""
    first = next(iter(found.values()), None)
    if isinstance(first, TopicUnfit):
        unfit = (one.detail for one in found.values() if isinstance(one, TopicUnfit))
        raise TopicUnfit(Faults("".join(one.removesuffix("\n") for one in unfit) + "\n"))
    if first is not None:
        raise first


async def _facts(
    admin: AIOKafkaAdminClient, names: list[str]
) -> tuple[dict[str, TopicFacts], dict[str, AqueductError]]:
    """The configurations of the topics that exist, and the errors of those whose settings may not be read."""
    known, refused = await _seen(admin, names)
    found: dict[str, TopicFacts] = {}
    for some in _sliced([*known]):
        configs, denied = await _configs(admin, some)
        refused |= denied
        for name in configs:
            copies = [len(each["replicas"]) for each in known[name]["partitions"]]
            found[name] = TopicFacts(len(copies), configs[name], min(copies, default=0))
    return found, refused


async def _offline(admin: AIOKafkaAdminClient, answer: Any) -> dict[str, AqueductError]:
    """Why topics take no records now: a partition has no leader, or fewer copies in sync than required."""
    found: dict[str, AqueductError] = {}
    some_away: dict[str, tuple[int, int]] = {}
    for name, number, leader, copies, synced in in_sync(answer):
        if leader < 0:
            found.setdefault(name, TooFewBrokers(f"partition {number} has no leader", topic=name))
        elif synced < copies:
            some_away[name] = min(some_away.get(name, (synced, number)), (synced, number))
    unknown = some_away.keys() - found.keys()
    configs, refused = await _configs(admin, sorted(unknown)) if unknown else ({}, {})
    found |= _of_topics(refused)
    for name, config in configs.items():
        synced, number = some_away[name]
        least = int(config.get("min.insync.replicas", 1))
        if synced < least:
            why = f"partition {number} has {synced} of its copies in sync, min.insync.replicas is {least}"
            found[name] = TooFewBrokers(why, topic=name)
    return found


def _sliced(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), MOST_NAMES):
        yield names[start : start + MOST_NAMES]


async def _configs(
    admin: AIOKafkaAdminClient, names: list[str]
) -> tuple[dict[str, dict[str, str]], dict[str, AqueductError]]:
    """The settings of topics, by name, and the errors of the topics whose settings may not be read."""
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    )
    found: dict[str, dict[str, str]] = {}
    refused: dict[str, AqueductError] = {}
    for answer in answers:
        for code, _message, _type, name, entries in answer.resources:
            if code:
                refused[name] = translated(for_code(code)(name))
            else:
                found[name] = {entry[0]: entry[1] for entry in entries}
    return found, refused


async def _denied(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, AqueductError]:
    """The topics among these missing ones that the account may not see, each with the error."""
    found: dict[str, AqueductError] = {}
    for some in _sliced(names):
        _, refused = await _configs(admin, some)
        found |= {name: one for name, one in refused.items() if isinstance(one, KafkaDenied)}
    return found
