"""Creation of topics: in requests that a controller accepts, until the topics' leaders accept records.

Invariant: one request creates no more than MOST_PARTITIONS partitions, and the next request follows once
these partitions have leaders. A KRaft controller refuses more than 10,000 at once ("Excessively large number
of partitions per request"), and handles other requests in between.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import InvalidPartitionsError, KafkaError, for_code
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from connectors.errors import AqueductError, KafkaLost, Retry
from connectors.kafka.error_mapping import answered
from connectors.kafka.topics.plan import TopicPlan

MOST_PARTITIONS = 1000
MOST_NAMES = 500
"""The number of topics in one metadata request."""
_SETTLE_SECONDS = 30.0
_NO_SUCH_TOPIC, _NO_LEADER, _ALREADY_EXISTS = 3, 5, 36
_LATEST = -1


async def make(
    admin: AIOKafkaAdminClient, plans: Iterable[TopicPlan], *, made: Callable[[str], None]
) -> None:
    """Create topics, and report each once its leaders accept records.

    A topic that another client has created meanwhile counts as created. Raise the broker's error.
    """
    for portion in portions(plans):
        await _create(admin, portion)
        await _led(admin, [plan.name for plan in portion])
        for plan in portion:
            made(plan.name)


async def more_partitions(admin: AIOKafkaAdminClient, counts: Mapping[str, int]) -> None:
    """Raise the partition counts of existing topics with fewer; return once all partitions accept records.

    Another client may do the same at the same time. Raise the broker's error.
    """
    wanted = await _smaller(admin, counts)
    for name, count in wanted.items():
        try:
            await admin.create_partitions({name: NewPartitions(count)})
        except InvalidPartitionsError:
            if name in await _smaller(admin, {name: count}):
                raise
    if wanted:
        await _led(admin, [*wanted])


async def _smaller(admin: AIOKafkaAdminClient, counts: Mapping[str, int]) -> dict[str, int]:
    """The topics that exist with fewer partitions than ``counts``, each with its count."""
    known = await described(admin, [*counts])
    found = {topic["topic"]: len(topic["partitions"]) for topic in known}
    return {name: count for name, count in counts.items() if found.get(name, count) < count}


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


async def _create(admin: AIOKafkaAdminClient, plans: list[TopicPlan]) -> None:
    answer = await admin.create_topics(
        [
            NewTopic(
                plan.name, plan.partitions, plan.replication_factor, topic_configs=plan.config()
            )
            for plan in plans
        ]
    )
    errors = [
        _refusal(name, code, *message)
        for name, code, *message in answer.topic_errors
        if code not in (0, _ALREADY_EXISTS)
    ]
    if errors:
        # Errors that only an operator can correct come first: the others may resolve by themselves.
        raise min(errors, key=lambda error: error.retry is Retry.TIMED)


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
    request = MetadataRequest(names, allow_auto_topic_creation=False)
    topics: list[dict[str, Any]] = (await admin._send_request(request)).to_object()["topics"]
    for topic in topics:
        if topic["error_code"] not in (0, _NO_SUCH_TOPIC, _NO_LEADER):
            raise for_code(topic["error_code"])(topic["topic"])
    return [topic for topic in topics if topic["error_code"] != _NO_SUCH_TOPIC]


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
