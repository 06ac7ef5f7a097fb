"""The client ids of a consumer group's members.

Invariant: it only reads; a process that was killed is a member until its session with the group is
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, for_code

from connectors.kafka.error_mapping import explained


async def members(options: Mapping[str, Any], group: str) -> frozenset[str]:
    """Return the client ids; none for an unknown group. Raises KafkaLost or KafkaDenied."""
    admin = AIOKafkaAdminClient(**options)
    try:
        await admin.start()
        answers = await admin.describe_consumer_groups([group])
        return frozenset(client for answer in answers for client in _clients(answer))
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await admin.close()


def _clients(answer: Any) -> list[str]:
    """Per group: error, name, state, protocol type, protocol, members; per member: id, client id, …"""
    found = []
    for error, _group, _state, _type, _protocol, every, *_ in answer.groups:
        if error:
            raise for_code(error)(f"the group cannot be described ({error})")
        found += [client for _id, client, *_ in every]
    return found
