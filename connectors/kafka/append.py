"""Adding one record to a topic outside any transaction: for records that only inform, and may occur
twice.

Invariant: it returns once all in-sync replicas have the record; everything else raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from connectors.kafka.error_mapping import explained
from connectors.kafka.producer import ANSWER_TIMEOUT, _stopped


async def append(
    options: Mapping[str, Any], topic: str, partition: int, *, key: bytes, value: bytes
) -> int:
    """Add it; return the record's offset. Raises KafkaLost, KafkaDenied or the error of the
    broker's refusal."""
    producer = AIOKafkaProducer(
        **options, acks="all", request_timeout_ms=int(ANSWER_TIMEOUT * 1000)
    )
    try:
        async with asyncio.timeout(3 * ANSWER_TIMEOUT):
            await producer.start()
            sent = await producer.send_and_wait(topic, value, key=key, partition=partition)
            return int(sent.offset)
    except (KafkaError, TimeoutError) as error:
        raise await explained(error, options) from error
    finally:
        await _stopped(producer)
