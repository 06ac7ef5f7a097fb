"""Requests of Kafka's protocol that aiokafka lacks, each in one version that brokers since 3.0 know.

Source: the message definitions in Kafka's documentation of its protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_NUMBERS = CompactArray(Int32)
NO_TAGS: dict[int, bytes] = {}
_UNKNOWN_RIGHTS = -(1 << 31)
_WRITE = 4
"""The code of the operation WRITE in Kafka's ACLs (org.apache.kafka.common.acl.AclOperation)."""
_ENDING = ("PrepareCommit", "PrepareAbort")
"""The states of a transaction that is decided, and whose end is not yet in all of its partitions."""


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka has no types
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class Ask:
    """A request as aiokafka's client sends it."""

    def __init__(self, struct: type[RequestStruct], *values: Any) -> None:
        self._struct, self._values = struct, values
        self.API_KEY = struct.API_KEY

    def prepare(self, versions: dict[int, tuple[int, int]]) -> RequestStruct:
        """Return the request in its only version; raise IncompatibleBrokerVersion if a broker lacks it."""
        struct = self._struct
        least, most = versions.get(struct.API_KEY, (0, -1))
        if not least <= struct.API_VERSION <= most:
            raise IncompatibleBrokerVersion(f"{struct.__name__} is not known to the broker")
        tags = (NO_TAGS,) if struct.FLEXIBLE_VERSION else ()
        return struct(*self._values, *tags)


def _request(name: str, number: int, version: int, *, asked: Schema, answer: Schema) -> Any:
    """A request and its answer, as aiokafka has them; those of flexible versions end with tags."""
    numbers = {"__module__": __name__, "API_KEY": number, "API_VERSION": version}
    response = type(f"{name}Response", (Response,), {**numbers, "SCHEMA": answer})
    is_flexible = asked.names[-1:] == ("tags",)
    more = {"FLEXIBLE_VERSION": is_flexible, "RESPONSE_TYPE": response, "SCHEMA": asked}
    return type(f"{name}Request", (RequestStruct,), {**numbers, **more})


_METADATA = _request(
    "Metadata",
    3,
    12,
    asked=Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _TEXT), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    ),
    answer=Schema(
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
    ),
)
"""Topics with their ids, by name; none is created."""
_PRODUCERS = _request(
    "DescribeProducers",
    61,
    0,
    asked=Schema(
        ("topics", CompactArray(("name", _TEXT), ("partition_indexes", _NUMBERS), _TAGS)), _TAGS
    ),
    answer=Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("error_code", Int16),
                        ("error_message", _TEXT),
                        (
                            "active_producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_timestamp", Int64),
                                ("coordinator_epoch", Int32),
                                ("current_txn_start_offset", Int64),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    ),
)
"""The producers that have written to partitions lately, of the partitions' leader."""
_TRANSACTIONS = _request(
    "ListTransactions",
    66,
    0,
    asked=Schema(
        ("state_filters", CompactArray(_TEXT)), ("producer_id_filters", CompactArray(Int64)), _TAGS
    ),
    answer=Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_state_filters", CompactArray(_TEXT)),
        (
            "transaction_states",
            CompactArray(
                ("transactional_id", _TEXT),
                ("producer_id", Int64),
                ("transaction_state", _TEXT),
                _TAGS,
            ),
        ),
        _TAGS,
    ),
)
"""The transactions that a broker coordinates."""
_TRANSACTION = _request(
    "DescribeTransactions",
    65,
    0,
    asked=Schema(("transactional_ids", CompactArray(_TEXT)), _TAGS),
    answer=Schema(
        ("throttle_time_ms", Int32),
        (
            "transaction_states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", _TEXT),
                ("transaction_state", _TEXT),
                ("transaction_timeout_ms", Int32),
                ("transaction_start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                (
                    "topics",
                    CompactArray(("topic", _TEXT), ("partitions", _NUMBERS), _TAGS),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    ),
)
"""The last transactions of transactional ids, of their coordinator."""
_DELETED_OFFSETS = _request(
    "OffsetDelete",
    47,
    0,
    asked=Schema(
        ("group_id", String("utf-8")),
        ("topics", Array(("name", String("utf-8")), ("partitions", Array(Int32)))),
    ),
    answer=Schema(
        ("error_code", Int16),
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("name", String("utf-8")),
                ("partitions", Array(("partition_index", Int32), ("error_code", Int16))),
            ),
        ),
    ),
)
"""Deletes offsets of a group, at its coordinator."""


def metadata(topics: Iterable[str], *, rights: bool = False) -> Ask:
    """Return the request for topics; with ``rights``, also for the account's privileges on them."""
    return Ask(_METADATA, [(bytes(16), one, NO_TAGS) for one in topics], False, rights)


def may_write(answer: Any) -> Iterator[tuple[str, int, bool]]:
    """Yield each requested topic: its name, its error code, and whether the account may write to it."""
    for error, name, _, _, _, rights, *_ in answer.topics:
        yield name, error, rights == _UNKNOWN_RIGHTS or bool(rights & 1 << _WRITE)


def in_sync(answer: Any) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield each partition of the requested topics: its topic, number, leader, copies and in-sync copies.

    Copies are counted; leader -1 means that the partition has no leader.
    """
    for _, name, _, _, partitions, *_ in answer.topics:
        for _, number, leader, _, copies, synced, *_ in partitions:
            yield name, number, leader, len(copies), len(synced)


def topic_ids(answer: Any) -> Iterator[tuple[str, int, str]]:
    """Yield each requested topic: its name, its error code, and its id, which is valid if the code is 0."""
    for error, name, number, *_ in answer.topics:
        yield name, error, str(uuid.UUID(bytes=number))


def producers(topic: str, partition: int) -> Ask:
    """Return the request for the producers of a partition, for its leader."""
    return Ask(_PRODUCERS, [(topic, [partition], NO_TAGS)])


def transactions(producer_ids: list[int]) -> Ask:
    """Return the request for the transactions of some producers, for each broker."""
    return Ask(_TRANSACTIONS, [], producer_ids)


def ending_transactions() -> Ask:
    """Return the request for transactions that are decided but not complete, for their coordinator.

    The end of such a transaction is not yet in all of its partitions.
    """
    return Ask(_TRANSACTIONS, [*_ENDING], [])


def last_transaction(transactional_id: str) -> Ask:
    """Return the request for the last transaction of an id, for its coordinator."""
    return Ask(_TRANSACTION, [transactional_id])


def ending_since(answer: Any) -> int | None:
    """Return when the transaction of `last_transaction` began (ms), if it is decided and not complete."""
    for error, _, state, _, began_ms, *_ in answer.transaction_states:
        if not error and state in _ENDING:
            return int(began_ms)
    return None


def deleted_offsets(group: str, topics: dict[str, list[int]]) -> Ask:
    """Return the request that deletes a group's offsets of partitions, which are given by topic."""
    return Ask(_DELETED_OFFSETS, group, list(topics.items()))
