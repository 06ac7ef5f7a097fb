"""The topics that exist, with their ids: a request of Kafka's protocol that aiokafka lacks.

Source: the message definition of Metadata, version 12, in Kafka's documentation of its protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from io import BytesIO
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest as OldRequest
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from aqueduct_client.protocol import TopicFacts

_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_NUMBERS = CompactArray(Int32)
_NO_TAGS: dict[int, bytes] = {}
_UNKNOWN, _INVALID, _DENIED = 3, 17, 29
"""Kafka's error codes UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED."""


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka has no types
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _Answer(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS
            ),
        ),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition_index", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replica_nodes", _NUMBERS),
                        ("isr_nodes", _NUMBERS),
                        ("offline_replicas", _NUMBERS),
                        _TAGS,
                    ),
                ),
                ("topic_authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _Request(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 3, 12
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _TEXT), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


class _Asks:
    """The request as aiokafka's client sends it: in this version, or in one without ids."""

    API_KEY = 3

    def __init__(self, names: Collection[str] | None) -> None:
        self._names = names

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Any:
        names = None if self._names is None else sorted(self._names)
        least, most = versions.get(self.API_KEY, (0, -1))
        if not least <= _Request.API_VERSION <= most:
            return OldRequest(names, allow_auto_topic_creation=False).prepare(versions)
        wanted = None if names is None else [(bytes(16), name, _NO_TAGS) for name in names]
        return _Request(wanted, False, False, _NO_TAGS)


async def described(client: Any, names: Collection[str] | None) -> dict[str, TopicFacts]:
    """Return those of the topics that exist, by aiokafka's client; None: all that the account may see."""
    answer = await client.send(client.get_random_node(), _Asks(names))
    has_ids = answer.API_VERSION == _Answer.API_VERSION
    found: dict[str, TopicFacts] = {}
    for topic in answer.topics:
        code, name = topic[:2]
        if code in (_UNKNOWN, _INVALID):
            continue
        if code == _DENIED:
            raise kafka_errors.TopicAuthorizationFailedError(name)
        if code:  # such as no leader yet: without its partitions it would seem to have none
            raise kafka_errors.for_code(code)(name)
        number = str(uuid.UUID(bytes=topic[2])) if has_ids else None
        partitions = topic[4] if has_ids else topic[3]
        found[name] = TopicFacts(number, len(partitions))
    return found
