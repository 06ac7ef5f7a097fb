"""Consumer groups of other programs: their members and offsets, and changes of their offsets.

Invariant: offsets are changed only while the group has no member; Kafka itself refuses any other change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    KafkaError,
    UnknownMemberIdError,
    for_code,
)

from connectors.errors import GroupActive, KafkaLost
from connectors.kafka.client import admin_client
from connectors.kafka.error_mapping import NAMELESS, explained, translated
from connectors.kafka.protocol_requests import deleted_offsets

Offsets = dict[tuple[str, int], int]
"""By topic and partition."""
_ANSWER_SECONDS = 60.0
"""Seconds for the brokers to take a group's offsets; more than aiokafka gives a single request."""
_NOT_EMPTY = 68
_NOT_FOUND = 69
_SUBSCRIBED = 86
"""Kafka's error codes NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND and GROUP_SUBSCRIBED_TO_TOPIC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group and its present members."""

    name: str
    state: str
    """As Kafka calls it: ``Stable``, ``Empty``, ``PreparingRebalance`` and so on."""
    members: tuple[str, ...]
    """Client id and host of each."""


async def group_names(options: Mapping[str, Any]) -> list[str]:
    """Return the names of all groups of consumers."""
    async with admin_client(options) as admin:
        found = await admin.list_consumer_groups()
    return sorted(name for name, kind in found if kind in ("consumer", ""))


async def group_state(options: Mapping[str, Any], group: str) -> GroupState:
    """Return a group's state and members; a group that does not exist has no members."""
    async with admin_client(options) as admin:
        (answer,) = await admin.describe_consumer_groups([group])
    ((error, name, state, _type, _protocol, members, *_),) = answer.groups
    if error not in (0, _NOT_FOUND):
        raise await explained(for_code(error)(name), options)
    clients = tuple(sorted(f"{client} at {host}" for _id, client, host, *_ in members))
    return GroupState(name=group, state=state, members=clients)


async def group_offsets(options: Mapping[str, Any], group: str) -> Offsets:
    """Return all offsets of a group."""
    async with admin_client(options) as admin:
        found = await admin.list_consumer_group_offsets(group)
    return {(tp.topic, tp.partition): at.offset for tp, at in found.items() if at.offset >= 0}


async def store_offsets(options: Mapping[str, Any], group: str, offsets: Offsets) -> None:
    """Set offsets of a group; raise GroupActive if it has members, or KafkaLost."""
    consumer = AIOKafkaConsumer(**options, group_id=group, enable_auto_commit=False)
    wanted = {TopicPartition(*tp): at for tp, at in offsets.items()}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await consumer.start()
            consumer.assign(list(wanted))
            await consumer.commit(wanted)
    except (CommitFailedError, UnknownMemberIdError) as error:
        raise await _active(options, group) from error
    except TimeoutError as error:
        # aiokafka asks for the group's coordinator without end while no broker is known.
        nameless = not consumer._client.cluster.brokers()
        raise (KafkaLost(NAMELESS) if nameless else translated(error)) from error
    except KafkaError as error:
        raise await explained(error, options) from error
    finally:
        await consumer.stop()


async def delete_offsets(
    options: Mapping[str, Any], group: str, partitions: Collection[tuple[str, int]]
) -> None:
    """Delete offsets of a group; raise GroupActive if it has members."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    async with admin_client(options) as admin:
        broker = await admin.find_coordinator(group)
        answer = await admin._send_request(deleted_offsets(group, topics), broker)
    codes = [answer.error_code, *(code for _, every in answer.topics for _, code in every)]
    for code in filter(None, codes):
        if code in (_NOT_EMPTY, _SUBSCRIBED):
            raise await _active(options, group)
        raise await explained(for_code(code)(group), options)


async def refuse_active(options: Mapping[str, Any], group: str) -> None:
    """Raise GroupActive if a group has members."""
    if (await group_state(options, group)).members:
        raise await _active(options, group)


async def _active(options: Mapping[str, Any], group: str) -> GroupActive:
    members = (await group_state(options, group)).members
    return GroupActive("; ".join(members) or "its last one has just left", group=group)


async def members(options: Mapping[str, Any], group: str) -> frozenset[str]:
    """Return the client ids of a group's members; none for an unknown group. Raise KafkaLost or KafkaDenied.

    A process that was killed is a member until its session with the group is over.
    """
    async with admin_client(options) as admin:
        answers = await admin.describe_consumer_groups([group])
        return frozenset(client for answer in answers for client in _clients(answer))


def _clients(answer: Any) -> list[str]:
    """Return the client ids of an answer's members.

    A group is (error, name, state, protocol type, protocol, members, …), a member (id, client id, …).
    """
    found = []
    for error, _group, _state, _type, _protocol, every, *_ in answer.groups:
        if error:
            raise for_code(error)(f"the group cannot be described ({error})")
        found += [client for _id, client, *_ in every]
    return found
