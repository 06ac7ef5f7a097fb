"""The subscriber's members and logs with real brokers, by aiokafka.

Invariant: only committed records are read, nothing commits automatically, and every position is chosen: a
partition without an offset of the group is read only after ``seek``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
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

from aqueduct_client.errors import (
    BrokersDenied,
    BrokersLost,
    BrokersRefused,
    RecordsGone,
    StaleBatch,
    SubscriberError,
)
from aqueduct_client.protocol import Assigned, Consumer, Log, TopicFacts
from aqueduct_client.records import Partition, RawRecord

log = logging.getLogger(__name__)

_OURS = ContextVar("aqueduct_client", default=False)
"""Whether a request of a subscriber is running; tasks that aiokafka starts within it inherit the value."""
_PACKAGE = logging.getLogger("aqueduct_client")

Options = Mapping[str, Any]
"""Keyword arguments of aiokafka's clients: ``bootstrap_servers``, and the account if there is one."""

_DENIED = (
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.TransactionalIdAuthorizationFailed,
    kafka_errors.SaslAuthenticationFailed,
    kafka_errors.AuthenticationFailedError,
)
_STALE = (
    kafka_errors.CommitFailedError,
    kafka_errors.IllegalStateError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.ProducerFenced,
    kafka_errors.InvalidProducerEpoch,
    kafka_errors.ConsumerStoppedError,
)
_NOT_ALLOWED = (kafka_errors.InvalidConfigurationError, kafka_errors.PolicyViolationError)
_NAMELESS = "Did we not perform bootstrap?"
"""aiokafka's assertion where a broker's metadata name no broker yet: it has only begun to start."""
_NEW_TOPIC_MS = 10_000
_POLL_MS = 200
_LOG_WAIT_MS = 20
"""How long a log's fetch waits; other requests on the same connection wait as long."""
_MOST = 500
_END_SECONDS = 5.0
_CONNECTING = {
    "bootstrap_servers",
    "client_id",
    "connections_max_idle_ms",
    "metadata_max_age_ms",
    "request_timeout_ms",
    "retry_backoff_ms",
    "security_protocol",
}
_COMPACTED = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
"""They keep a topic small that clients read whole at each start. Managed clusters may not allow all of them."""


@contextmanager
def translated(right: str = "Read", **where: object) -> Any:
    """Raise aiokafka's errors as SubscriberErrors; ``right``: the operation that Kafka's ACLs must allow."""
    try:
        with quiet():
            yield
    except SubscriberError:
        raise
    except kafka_errors.OffsetOutOfRangeError as error:
        raise RecordsGone(str(error), **where) from error
    except _DENIED as error:
        raise BrokersDenied(_denied(error, right), **where) from error
    except _STALE as error:
        raise StaleBatch("the group has rebalanced", **where) from error
    except kafka_errors.BrokerResponseError as error:
        kind = BrokersLost if error.retriable else BrokersRefused
        raise kind(_described(error), **where) from error
    except (kafka_errors.KafkaError, OSError, TimeoutError) as error:
        raise BrokersLost(_described(error), **where) from error
    except AssertionError as error:
        if str(error) != _NAMELESS:
            raise
        raise BrokersLost("the cluster names no broker, as while it starts", **where) from error


AnswerLimit = Callable[[], float | None]
"""Returns the seconds that Kafka has for an answer; None: as many as aiokafka gives it."""


def endless() -> float | None:
    """Return no limit for answers."""
    return None


@asynccontextmanager
async def answered(
    answer_limit: AnswerLimit, right: str = "Read", **where: object
) -> AsyncIterator[None]:
    """Translate as ``translated`` does, and raise BrokersLost if the block takes longer than ``answer_limit``.

    aiokafka's own limit, ``request_timeout_ms``, holds for the requests by which a group rebalances too, and
    these rightly take long.
    """
    seconds = answer_limit()
    with translated(right, **where):
        try:
            async with asyncio.timeout(seconds) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise BrokersLost(f"no answer within {seconds:.0f} s", **where) from error


def _described(error: BaseException) -> str:
    """Return an error's name and message; many of aiokafka's messages begin with the name."""
    name, text = type(error).__name__, str(error)
    return text if text.startswith(name) else f"{name}: {text}".removesuffix(": ")


def _denied(error: kafka_errors.KafkaError, right: str) -> str:
    """Return a text that names the missing right and its resource."""
    kinds = {
        kafka_errors.TopicAuthorizationFailedError: f"{right} on the topic",
        kafka_errors.GroupAuthorizationFailedError: "Read on the group",
        kafka_errors.TransactionalIdAuthorizationFailed: "Write on the transactional id",
    }
    kind = kinds.get(type(error))
    if kind is None:
        return str(error)
    # aiokafka gives the names of all denied resources, or one name, or nothing.
    names = error.args[0] if error.args else ()
    found = [names] if isinstance(names, str) else sorted(map(str, names))
    return f"the account lacks the right {kind} {', '.join(found)}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGroup:
    """A group and its topics."""

    options: Options
    group: str
    topics: frozenset[str]
    client: str | None = None
    """The client's name within the group, if it has one."""
    session_seconds: float = 10.0
    """Seconds after which a silent member is replaced."""
    handling_seconds: float = 300.0
    """Seconds without a poll after which a member is considered stuck and is replaced."""
    answer_limit: AnswerLimit = endless

    @asynccontextmanager
    async def __call__(self, assigned: Assigned) -> AsyncIterator[Consumer]:
        """Join the group."""
        consumer = AIOKafkaConsumer(
            **self.options,
            group_id=self.group,
            group_instance_id=self.client,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",
            metadata_max_age_ms=_NEW_TOPIC_MS,
            session_timeout_ms=int(self.session_seconds * 1000),
            heartbeat_interval_ms=int(self.session_seconds * 300),
            max_poll_interval_ms=int(self.handling_seconds * 1000),
        )
        try:
            where = {"group": self.group, "brokers": self.options["bootstrap_servers"]}
            async with answered(self.answer_limit, **where):
                await consumer.start()
            # Not before start: aiokafka's start fails if one of the topics does not exist yet.
            with quiet():
                consumer.subscribe(topics=sorted(self.topics), listener=_Listener(assigned))
            yield _Member(consumer, self.group, self.answer_limit)
        finally:
            await _stopped(consumer)


@dataclass(frozen=True, slots=True)
class _Member:
    consumer: AIOKafkaConsumer
    group: str
    answer_limit: AnswerLimit

    async def poll(
        self, *, seconds: float, most: int, without: Collection[Partition] = ()
    ) -> list[RawRecord]:
        # Without a name, aiokafka reads all partitions.
        read = self.consumer.assignment() - {TopicPartition(*tp) for tp in without}
        try:
            with translated(group=self.group):
                found = await self.consumer.getmany(
                    *(read if without else ()), timeout_ms=int(seconds * 1000), max_records=most
                )
        except BrokersLost as error:
            if isinstance(error.__cause__, kafka_errors.NoOffsetForPartitionError):
                return []  # the subscriber is about to choose a position
            raise
        return [_raw(one) for records in found.values() for one in records]

    async def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        found = {}
        for tp in partitions:
            async with answered(self.answer_limit, group=self.group, topic=tp.topic):
                offset = await self.consumer.committed(TopicPartition(*tp))
            if offset is not None:
                found[tp] = int(offset)
        return found

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        async with answered(self.answer_limit, group=self.group):
            await self.consumer.commit({TopicPartition(*tp): at for tp, at in offsets.items()})

    async def seek(self, offsets: Mapping[Partition, int]) -> None:
        with translated(group=self.group):
            for tp, at in offsets.items():
                self.consumer.seek(TopicPartition(*tp), at)

    async def topics(self, names: Collection[str] | None) -> dict[str, TopicFacts]:
        async with answered(self.answer_limit, "Describe", group=self.group):
            return await described(self.consumer._client, names)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, assigned: Assigned) -> None:
        self._assigned = assigned

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:  # noqa: ARG002
        self._assigned(frozenset())

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._assigned(frozenset(Partition(tp.topic, tp.partition) for tp in assigned))


async def kafka_append(
    options: Options,
    topic: str,
    records: Sequence[tuple[bytes, bytes]],
    answer_limit: AnswerLimit = endless,
) -> None:
    """Append to a compacted topic; see Appends."""
    where = {"topic": topic, "brokers": options["bootstrap_servers"]}
    async with answered(answer_limit, "Describe", **where):
        await _ensure(options, topic)
    if not records:
        return
    async with answered(answer_limit, "Write", **where):
        producer = AIOKafkaProducer(**_connecting(options), acks="all")
        try:
            await producer.start()
            for key, value in records:
                await (await producer.send(topic, value=value, key=key, partition=0))
        finally:
            await producer.stop()


def _connecting(options: Options) -> dict[str, Any]:
    """Return the options that a producer has too, without the options for fetching and groups."""
    return {
        name: value
        for name, value in options.items()
        if name in _CONNECTING or name.startswith(("sasl_", "ssl_"))
    }


async def _ensure(options: Options, topic: str) -> None:
    """Make sure that a compacted topic exists; create it with the brokers' replication factor."""
    admin = AIOKafkaAdminClient(**_connecting(options))
    try:
        await admin.start()
        if await described(admin._client, [topic]):
            return
        error, text = await _created(admin, topic, _COMPACTED)
        if error in _NOT_ALLOWED:
            reason, bare = text, {"cleanup.policy": "compact"}
            error, text = await _created(admin, topic, bare)
            if error is kafka_errors.NoError:
                log.warning(
                    "the brokers do not allow all settings of a compacted topic: it was made with "
                    "cleanup.policy alone, and is larger for each client that reads it at its start "
                    "[topic=%s, reason=%s]",
                    topic,
                    reason,
                )
        if error in _DENIED:
            right = f"the account lacks the right Create on the topic {topic}"
            raise BrokersDenied(
                f"it does not exist and cannot be made: {right} ({text})", topic=topic
            )
        if error not in (kafka_errors.NoError, kafka_errors.TopicAlreadyExistsError):
            raise error(f"{topic} does not exist and cannot be made: {text}")
        while not await described(admin._client, [topic]):  # noqa: ASYNC110 - the broker has no event
            await asyncio.sleep(_POLL_MS / 1000)
    finally:
        await admin.close()


async def _created(
    admin: AIOKafkaAdminClient, topic: str, settings: Mapping[str, str]
) -> tuple[type[kafka_errors.BrokerResponseError], str]:
    """Request a new topic; return the brokers' answer, with their reason if it is an error."""
    wanted = NewTopic(topic, 1, 1, topic_configs=settings)
    # The brokers' default, which aiokafka does not let a client request.
    wanted.replication_factor = -1
    answer = await admin.create_topics([wanted])
    ((_, code, *more),) = answer.topic_errors
    error = kafka_errors.for_code(code)
    return error, next(filter(None, more), error.description)


@asynccontextmanager
async def kafka_log(options: Options, answer_limit: AnswerLimit = endless) -> AsyncIterator[Log]:
    """Open partitions as logs; see OpensLog."""
    consumer = AIOKafkaConsumer(
        **options,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=_LOG_WAIT_MS,
    )
    try:
        async with answered(answer_limit, brokers=options["bootstrap_servers"]):
            await consumer.start()
        # aiokafka's stop raises CancelledError if a task that start created never ran.
        await asyncio.sleep(0)
        yield _KafkaLog(consumer, answer_limit)
    finally:
        await _stopped(consumer)


@dataclass(frozen=True, slots=True)
class _KafkaLog:
    consumer: AIOKafkaConsumer
    answer_limit: AnswerLimit
    _seen: set[str] = field(default_factory=set)
    """Topics that were seen to exist."""

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        tp = TopicPartition(*partition)
        where = {"topic": tp.topic, "partition": tp.partition}
        async with answered(self.answer_limit, "Describe", **where):
            await self._look(tp.topic)
            beginnings = await self.consumer.beginning_offsets([tp])
            ends = await self.consumer.end_offsets([tp])
        return int(beginnings[tp]), int(ends[tp])

    async def _look(self, topic: str) -> None:
        """Raise an error for a topic that is denied or does not exist: aiokafka would wait for it."""
        if topic not in self._seen and not await described(self.consumer._client, [topic]):
            raise BrokersLost(f"there is no topic {topic}")
        self._seen.add(topic)

    async def offset_at(self, partition: Partition, ts_ms: int) -> int | None:
        tp = TopicPartition(*partition)
        where = {"topic": tp.topic, "partition": tp.partition}
        async with answered(self.answer_limit, "Describe", **where):
            found = (await self.consumer.offsets_for_times({tp: ts_ms}))[tp]
        return None if found is None else int(found.offset)

    async def read(self, partition: Partition, offset: int) -> list[RawRecord]:
        tp = TopicPartition(*partition)
        async with answered(self.answer_limit, topic=tp.topic, partition=tp.partition):
            if self.consumer.assignment() != {tp}:
                self.consumer.assign([tp])
                self.consumer.seek(tp, offset)
            elif await self.consumer.position(tp) != offset:
                self.consumer.seek(tp, offset)
            # Records that were fetched in advance need no request to the broker.
            if records := await self._fetched(tp, 0):
                return records
            _, end = await self.bounds(partition)
            while await self.consumer.position(tp) < end:
                if records := await self._fetched(tp, _POLL_MS):
                    return records
        return []

    async def _fetched(self, tp: TopicPartition, timeout_ms: int) -> list[RawRecord]:
        """Return records with a value; transaction markers and tombstones only move the position."""
        found = await self.consumer.getmany(tp, timeout_ms=timeout_ms, max_records=_MOST)
        return [_raw(one) for one in found.get(tp, []) if one.value is not None]


def _raw(one: Any) -> RawRecord:
    return RawRecord(
        partition=Partition(one.topic, one.partition),
        offset=one.offset,
        key=one.key,
        value=one.value,
        headers=tuple(one.headers),
        written_ms=one.timestamp,
    )


async def _stopped(consumer: AIOKafkaConsumer) -> None:
    """Leave the group; do not wait for a broker that does not answer."""
    with quiet():
        try:
            async with asyncio.timeout(_END_SECONDS):
                await consumer.stop()
        except (kafka_errors.KafkaError, OSError, TimeoutError):
            # aiokafka closes connections last: the interpreter would report each of them as unclosed.
            with suppress(kafka_errors.KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await consumer._client.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Hide aiokafka's log lines about what begins within the block, unless the package's logger is at DEBUG.

    aiokafka repeats a fault for each request: it logs 200 lines in five seconds without a broker. It also logs
    errors at the first start on a new cluster, which creates its topic of offsets only then. Lines about other
    clients of the process are kept.
    """
    _filter_loggers()
    token = _OURS.set(True)
    try:
        yield
    finally:
        _OURS.reset(token)


@cache
def _filter_loggers() -> None:
    """Filter each of aiokafka's loggers: a logger's filter does not see the lines of its child loggers."""
    for name, one in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] == "aiokafka" and isinstance(one, logging.Logger):
            one.addFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    is_hidden = _OURS.get() and record.levelno < logging.CRITICAL
    return not is_hidden or _PACKAGE.isEnabledFor(logging.DEBUG)


# The topics that exist, with their ids: a request of Kafka's protocol that aiokafka lacks.
#
# Source: the message definition of Metadata, version 12, in Kafka's documentation of its
# protocol.


_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_NUMBERS = CompactArray(Int32)
_NO_TAGS: dict[int, bytes] = {}
_UNKNOWN, _INVALID, _TOPIC_DENIED = 3, 17, 29
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
    """The request as aiokafka's client sends it: in version 12, or in an older version without ids."""

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
    """Return the named topics that exist, by aiokafka's client; None: all that the account may see."""
    answer = await client.send(client.get_random_node(), _Asks(names))
    has_ids = answer.API_VERSION == _Answer.API_VERSION
    found: dict[str, TopicFacts] = {}
    for topic in answer.topics:
        code, name = topic[:2]
        if code in (_UNKNOWN, _INVALID):
            continue
        if code == _TOPIC_DENIED:
            raise kafka_errors.TopicAuthorizationFailedError(name)
        if code:  # such as no leader yet: the answer may lack the topic's partitions
            raise kafka_errors.for_code(code)(name)
        number = str(uuid.UUID(bytes=topic[2])) if has_ids else None
        partitions = topic[4] if has_ids else topic[3]
        found[name] = TopicFacts(number, len(partitions))
    return found
