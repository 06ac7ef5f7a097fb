"""Topics as an ordinary consumer reads them: committed records only, up to the end that there is now.

Invariant: the product's own readers are not used, because these records are what the product is judged by.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.structs import ConsumerRecord

from connectors.kafka.protocol_requests import ending_transactions
from devstack.errors import DevstackError

_POLL_MS = 500
_PATIENCE = 20.0
"""Seconds without progress after which the end is given up."""
_LOOK_SECONDS = 0.01


class TopicsUnreadable(DevstackError):
    """Kafka's topics could not be read to their end."""


async def names(kafka: str) -> set[str]:
    """The topics that there are."""
    async with AIOKafkaConsumer(bootstrap_servers=kafka) as consumer:
        return set(await consumer.topics())


async def ends(kafka: str, topics: Collection[str], **options: Any) -> dict[TopicPartition, int]:
    """The last stable offset of each partition: all before it is committed or aborted."""
    async with _consumer(kafka, topics, options) as consumer:
        return await _ends(consumer)


async def batches(
    kafka: str, topics: Collection[str], **options: Any
) -> AsyncGenerator[list[ConsumerRecord]]:
    """All records of these topics as they arrive, those of a partition in order.

    Raise TopicsUnreadable if a topic is missing or an end is not reached.
    """
    if not topics:
        return
    async with _consumer(kafka, topics, options) as consumer:
        last = await _ends(consumer)
        waiting, reached, moved = last, dict[TopicPartition, int](), time.monotonic()
        while True:
            # An aborted transaction moves a position and gives no record.
            positions = {tp: await consumer.position(tp) for tp in waiting}
            waiting = {tp: last[tp] for tp, at in positions.items() if at < last[tp]}
            if not waiting:
                return
            if positions != reached:
                reached, moved = positions, time.monotonic()
            elif time.monotonic() - moved > _PATIENCE:
                raise TopicsUnreadable
            fetched = await consumer.getmany(timeout_ms=_POLL_MS)
            yield [*itertools.chain.from_iterable(fetched.values())]


@asynccontextmanager
async def _consumer(
    kafka: str, topics: Collection[str], options: dict[str, Any]
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group: it is assigned every partition of the topics."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=kafka,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **options,
    )
    try:
        await consumer.start()
        await until_marked(consumer._client)
        yield consumer
    except UnknownTopicOrPartitionError as error:
        raise TopicsUnreadable(f"Kafka lacks one of {', '.join(sorted(topics))}") from error
    finally:
        await consumer.stop()


async def until_marked(client: AIOKafkaClient) -> None:
    """Wait until the transactions that end now have their markers in all partitions.

    A broker reports a commit before that, so a last stable offset may be before records of a commit
    that its producer knows of.
    """
    deadline = time.monotonic() + _PATIENCE
    waiting = await _ending(client)
    while waiting:
        if time.monotonic() > deadline:
            raise TopicsUnreadable(f"Kafka does not end the transactions of {sorted(waiting)}")
        await asyncio.sleep(_LOOK_SECONDS)
        waiting &= await _ending(client)


async def _ending(client: AIOKafkaClient) -> set[str]:
    """The transactional ids that are committed or aborted, and not in all partitions."""
    found: set[str] = set()
    for broker in client.cluster.brokers():
        # A broker that is down coordinates nothing.
        with suppress(KafkaError):
            answer = await client.send(broker.nodeId, ending_transactions())
            found |= {name for name, *_ in answer.transaction_states}
    return found


async def _ends(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    return dict(await consumer.end_offsets(list(consumer.assignment())))
