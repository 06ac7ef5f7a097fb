"""Creation of topics with stated settings, and refusal of topics that would lose or disorder records.

Invariant: a topic is written to only after it was created or checked in this process. A topic with another
number of partitions, a shorter retention or another cleanup policy than the settings require is refused by
name, and so is a topic that has vanished. A topic that may lose records if a broker fails is reported.
"""

from __future__ import annotations

import logging
import shlex
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
from hashlib import sha256
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, for_code

from connectors.errors import (
    AqueductError,
    Faults,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    TooFewBrokers,
    TopicGone,
    TopicUnfit,
)
from connectors.kafka.error_mapping import DENIED, explained
from connectors.kafka.protocol_requests import in_sync, may_write, metadata, topic_ids
from connectors.kafka.topics.creation import MOST_NAMES, described, make, more_partitions
from connectors.kafka.topics.fitness import TopicFacts as TopicFacts
from connectors.kafka.topics.fitness import faults as faults
from connectors.kafka.topics.fitness import slow_compaction as slow_compaction
from connectors.kafka.topics.fitness import weaknesses
from connectors.kafka.topics.plan import Compaction as Compaction
from connectors.kafka.topics.plan import TopicPlan as TopicPlan

log = logging.getLogger(__name__)

_NO_SUCH_TOPIC, _NO_LEADER, _DENIED = 3, 5, 29

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
        async with self._looking(plans):
            pass

    async def ensure(self, *plans: TopicPlan, before: Container[str] = ()) -> None:
        """Create missing topics, and check existing ones; a topic that existed ``before`` is not created again.

        Raise TopicGone, TopicUnfit naming every fault, KafkaDenied, KafkaRefused or KafkaLost.
        """
        async with self._looking(plans) as (admin, missing):
            lost = [plan for plan in missing if plan.name in before]
            if lost:
                # Some brokers report a topic as missing if the account may not see it.
                await _configs(admin, [lost[0].name], absent=True)
                raise TopicGone(
                    lost[0].command(),
                    topic=lost[0].name,
                    remedy=TopicGone.remedy.replace("TOPIC", shlex.quote(lost[0].name)),
                )
            if missing:
                await make(admin, missing, made=self._ready.add)
        self._ready.update(plan.name for plan in plans)

    @asynccontextmanager
    async def _looking(
        self, plans: Iterable[TopicPlan]
    ) -> AsyncIterator[tuple[AIOKafkaAdminClient | None, list[TopicPlan]]]:
        """Check the existing topics not checked yet; yield a client and the plans of the missing topics."""
        wanted = [plan for plan in plans if plan.name not in self._ready]
        if not wanted:
            yield None, []
            return
        async with self._admin() as admin:
            yield admin, await self._missing(admin, wanted)

    def forget(self, names: Iterable[str]) -> None:
        """Check these topics again at their next use: they may have been altered since."""
        self._ready.difference_update(names)

    async def digests(self, names: Collection[str]) -> dict[str, str]:
        """Return a digest of the settings of each of these topics that exists.

        If the account may not read them, all digests are empty. Raise KafkaLost.
        """
        try:
            async with self._admin() as admin:
                found = await _facts(admin, sorted(names))
        except (KafkaDenied, KafkaRefused):
            return dict.fromkeys(names, "")
        return {
            name: sha256(repr((one.partitions, sorted(one.config.items()))).encode()).hexdigest()
            for name, one in found.items()
        }

    async def grow(self, counts: Mapping[str, int]) -> None:
        """Raise the partition counts of existing topics that have fewer partitions.

        Raise KafkaDenied, KafkaRefused or KafkaLost.
        """
        async with self._admin() as admin:
            await more_partitions(admin, counts)

    async def counts(self) -> dict[str, int]:
        """Return the partition counts of all topics that the account may see."""
        async with self._admin() as admin:
            return {
                topic["topic"]: len(topic["partitions"]) for topic in await described(admin, None)
            }

    async def has(self, plan: TopicPlan) -> bool:
        """Whether a topic exists; nothing is created. Raise as ``ensure`` does."""
        async with self._admin() as admin:
            return not await self._missing(admin, [plan])

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

        KafkaDenied: the account may not write to a topic, or not see it. TooFewBrokers: a partition takes no
        records now.

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
                        found[name] = KafkaDenied("the account may not write to it", topic=name)
        return found

    async def largest(self, name: str) -> int | None:
        """Return the most bytes of a record batch that a topic accepts now; None if that cannot be read.

        It is the smaller of max.message.bytes and segment.bytes.
        """
        try:
            async with self._admin() as admin:
                facts = (await _facts(admin, [name])).get(name)
        except (KafkaDenied, KafkaLost, KafkaRefused):
            return None
        config = facts.config if facts else {}
        limits = [config.get(name) for name in ("max.message.bytes", "segment.bytes")]
        return min((int(held) for held in limits if held), default=None)

    async def _missing(self, admin: AIOKafkaAdminClient, plans: list[TopicPlan]) -> list[TopicPlan]:
        """The plans of topics that do not exist; raise TopicUnfit for the faults of the existing topics."""
        existing = await _facts(admin, [plan.name for plan in plans])
        found: list[str] = []
        for plan in plans:
            facts = existing.get(plan.name)
            if facts is None:
                continue
            wrong = [f"{plan.name}: {fault}" for fault in faults(plan, facts)]
            found += wrong
            if not wrong:
                self._ready.add(plan.name)
                self._warn(plan, facts)
        if found:
            raise TopicUnfit(Faults.listed("", found))
        return [plan for plan in plans if plan.name not in existing]

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


async def _facts(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, TopicFacts]:
    found: dict[str, TopicFacts] = {}
    for some in _sliced(names):
        known = {topic["topic"]: topic for topic in await described(admin, some)}
        configs = await _configs(admin, list(known)) if known else {}
        for name, topic in known.items():
            copies = [len(each["replicas"]) for each in topic["partitions"]]
            found[name] = TopicFacts(len(copies), configs.get(name, {}), min(copies, default=0))
    return found


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
    configs = await _configs(admin, sorted(unknown)) if unknown else {}
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
    admin: AIOKafkaAdminClient | None, names: list[str], *, absent: bool = False
) -> dict[str, dict[str, str]]:
    """The settings of topics, by name; if the topics are ``absent``, only a denied request is an error."""
    assert admin is not None
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
