"""Writing to Kafka: a destination's transactional producer, and records added outside any transaction.

Invariant: a commit either has certainly succeeded or raises: every unknown outcome is an error, after which
the producer is discarded. aiokafka repeats an EndTxn request that got no answer, and the repeated request
may end the *next* transaction (KAFKA-17754); so here an EndTxn without an answer is an error at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer.sender import (
    AddPartitionsToTxnHandler,
    EndTxnHandler,
    InitPIDHandler,
    SendProduceReqHandler,
)
from aiokafka.structs import RecordMetadata

from connectors.errors import (
    AqueductError,
    Fenced,
    KafkaDenied,
    KafkaLost,
    KafkaSlow,
    Retry,
    TooFewBrokers,
)
from connectors.kafka.error_mapping import NAMELESS, explained, translated
from connectors.kafka.protocol_requests import ending_since, last_transaction
from connectors.kafka.record_batches import FinishedBatch, Sendable
from connectors.kafka.refusal_errors import too_large

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT = 15.0
"""Seconds after which the broker aborts a transaction whose owner is silent."""
ANSWER_TIMEOUT = 10.0
"""Seconds within which a transaction must be complete; well under the broker's own time-out."""
MARKERS_TIMEOUT = 60.0
"""Seconds that a transaction waits for the previous transaction; the wait is not part of its own deadline."""
UNFINISHED_SECONDS = 10.0
"""Seconds that an id's last transaction may be decided but not complete before the spare id is used. A worker
that has lost the id may still use it until then."""
UNFINISHED_OWN_SECONDS = 1.0
"""The same if this process had the id last, or if the transaction is older: no other worker uses it then."""
GONE_SECONDS = 2.0
"""Seconds that a transaction waits for a topic that its brokers do not know any more."""
SPARE = ".spare"
"""The suffix of the spare id's name."""
MAX_BATCH_BYTES = 512 * 1024
LARGEST_REQUEST = 100 * 1024 * 1024
"""The most that a broker reads (socket.request.max.bytes). The limit of a record is the topic's."""

_COORDINATOR = CoordinationType.TRANSACTION
_SPARE = 2
"""The number of in-sync copies that a record needs in a topic with more than two copies."""

LARGEST_BATCH = LARGEST_REQUEST - 64 * 1024
"""Leaves room for the rest of a request: if a request is larger, a broker closes the connection without an
error."""


class _EndTxnOnce(EndTxnHandler):  # type: ignore[misc]
    """Ends a transaction with a single request; without an answer the producer has failed."""

    async def do(self, node_id: int) -> bool:
        manager = self._sender._txn_manager
        try:
            answer = await self._sender.client.send(
                node_id, self.create_request(), group=self.group
            )
        except KafkaError as error:
            manager.fatal_error(KafkaLost(f"no answer to the end of a transaction ({error!r})"))
            return True
        backoff = self.handle_response(answer)
        if backoff is not None:
            await asyncio.sleep(backoff)
        return backoff is None


class _Unfinished(Exception):
    """The last transaction of an id is decided, but some of its partitions do not take its end."""


class _IdTaker(InitPIDHandler):  # type: ignore[misc]
    """Takes over an id; raises _Unfinished if the takeover must wait for a partition that takes no records.

    Until that partition takes records again, no broker lets a producer use the id: neither its owner nor
    another worker can begin a transaction.
    """

    since: float | None = None
    """When a broker first answered that the last transaction is not complete."""
    is_ours: bool = False
    """Whether this process was the last to take over the id."""

    async def do(self, node_id: int) -> bool:
        now = asyncio.get_running_loop().time()
        is_done = bool(await super().do(node_id))
        if is_done or self.since is None or now - self.since < UNFINISHED_OWN_SECONDS:
            return is_done
        with contextlib.suppress(KafkaError):
            ask = last_transaction(self._sender._txn_manager.transactional_id)
            began_ms = ending_since(await self._sender.client.send(node_id, ask))
            if began_ms is not None:
                age = max(now - self.since, time.time() - began_ms / 1000)
                if self.is_ours or age >= UNFINISHED_SECONDS:
                    raise _Unfinished
        return is_done

    def handle_response(self, response: Any) -> float | None:
        if response.error_code != ConcurrentTransactions.errno:
            self.since = None
        elif self.since is None:
            self.since = asyncio.get_running_loop().time()
        backoff: float | None = super().handle_response(response)
        return backoff


class _PartitionsAdder(AddPartitionsToTxnHandler):  # type: ignore[misc]
    """Adds partitions to a transaction, and postpones its deadline while the previous one is not finished.

    A broker answers the end of a transaction before its markers are in all partitions. With hundreds of new
    partitions this takes seconds, and until then the broker refuses the next transaction's partitions.
    """

    def handle_response(self, response: Any) -> float | None:
        backoff: float | None = super().handle_response(response)
        for topic, partitions in response.errors:
            answers = {code for _, code in partitions}
            if ConcurrentTransactions.errno in answers:
                self._sender.postpone()
            if UnknownTopicOrPartitionError.errno in answers:
                self._sender.missing(topic)
        return backoff


class TransactionalProducer:
    """The producer of one transactional id, used until an outcome is unknown."""

    def __init__(
        self,
        transactional_id: str,
        *,
        options: Mapping[str, Any],
        compression: str | None,
        timeout_factor: float = 1.0,
        has_spare: bool = False,
        is_ours: bool = False,
    ) -> None:
        """``timeout_factor``: the factor by which a transaction may take longer, for slow brokers.

        ``has_spare``: whether a spare id is used while a partition that takes no records keeps the first id's
        last transaction incomplete. Every producer that takes over one of the two ids takes over both.

        ``is_ours``: whether this process was the last to take over the ids, so that no other one can use them.
        """
        self.transactional_id = transactional_id
        self.deadline = timeout_factor * ANSWER_TIMEOUT
        """Seconds within which a transaction must be complete."""
        self._timeout = timeout_factor * TRANSACTION_TIMEOUT
        self._options = options
        self.compression = compression
        self._spare = transactional_id + SPARE if has_spare else None
        self._is_ours = is_ours
        self._kafka: AIOKafkaProducer | None = None

    async def init_transactions(self) -> None:
        """Take over the transactional id: its former owner is fenced, and its open transaction ended."""
        if self._spare is None:
            self._kafka = await self._started(self.transactional_id)
            return
        taking = [asyncio.create_task(self._taken(self.transactional_id))]
        taking.append(asyncio.create_task(self._taken(self._spare, is_spare=True)))
        try:
            first, spare = await asyncio.gather(*taking)
        except BaseException:
            for task in taking:
                task.cancel()
            for one in await asyncio.gather(*taking, return_exceptions=True):
                if isinstance(one, AIOKafkaProducer):
                    await _stopped(one)
            raise
        self._kafka = first or spare
        if self._kafka is None:
            raise KafkaLost(
                f"partitions do not take the ends of the last transactions of {self.transactional_id} and "
                f"{self._spare}"
            )
        if first is None:
            log.warning(
                "%s: a partition does not take the end of its last transaction, so %s is used instead",
                self.transactional_id, self._spare,
            )  # fmt: skip
        elif spare is not None:
            await _stopped(spare)

    async def _taken(self, name: str, *, is_spare: bool = False) -> AIOKafkaProducer | None:
        """The producer of an id; None if its last transaction is not complete, or if the spare id is denied.

        If the account may not use the spare id, no worker of this account has used it.
        """
        try:
            return await self._started(name)
        except _Unfinished:
            return None
        except KafkaDenied:
            if is_spare:
                return None
            raise

    async def _started(self, name: str) -> AIOKafkaProducer:
        """A producer that has taken over an id."""
        producer = AIOKafkaProducer(
            **self._options,
            transactional_id=name,
            transaction_timeout_ms=int(self._timeout * 1000),
            request_timeout_ms=int(self.deadline * 1000),
            compression_type=self.compression,
            max_batch_size=MAX_BATCH_BYTES,
            max_request_size=LARGEST_REQUEST,
            metadata_max_age_ms=60_000,
        )
        sender = producer._sender

        async def end_once(commit_result: Any) -> None:
            await _end_transaction(sender, commit_result)

        sender._do_txn_commit = end_once
        sender._do_add_partitions_to_txn = _adding(sender)
        if self._spare is not None:
            taker = _IdTaker(sender)
            taker.is_ours = self._is_ours
            sender._do_init_pid = taker.do
        _record_answers(sender)
        _keep_topics(producer.client)
        _wrap_sequences(producer._txn_manager)
        try:
            async with asyncio.timeout(3 * ANSWER_TIMEOUT):
                await producer.start()
        except TimeoutError as error:
            cluster = producer.client.cluster
            known = too_few(cluster) if cluster.brokers() else KafkaLost(NAMELESS)
            await _stopped(producer)
            raise known or translated(error) from error
        except KafkaError as error:
            await _stopped(producer)
            raise await explained(error, self._options) from error
        except BaseException:
            # A cancelled call leaves no connection and no task either.
            await _stopped(producer)
            raise
        return producer

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the brokers for the partitions of these topics, all at once and before a transaction is open."""
        assert self._kafka is not None, "init_transactions() comes first"
        client = self._kafka.client
        unknown = [name for name in topics if client.cluster.partitions_for_topic(name) is None]
        try:
            await asyncio.gather(*map(client._wait_on_metadata, unknown))
        except KafkaError as error:
            raise await explained(error, self._options) from error

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AIOKafkaProducer]:
        """Commit a transaction at the block's end; raise on any failure.

        After a failure the caller discards the producer, and the init of the next producer ends the
        transaction. If an operator must act first, that may take long; then the transaction is aborted at
        once, and blocks no reader of the journal or the rows.
        """
        assert self._kafka is not None, "init_transactions() comes first"
        loop = asyncio.get_running_loop()
        last = loop.time() + MARKERS_TIMEOUT

        def postpone() -> None:
            # The answer may be handled after the deadline has passed; then reschedule() raises.
            with contextlib.suppress(RuntimeError):
                limit.reschedule(min(loop.time(), last) + self.deadline)

        def missing(topic: str) -> None:
            # Brokers that learn of a new leader do not know a topic for a moment.
            client.force_metadata_update()
            loop.call_later(GONE_SECONDS, give_up_if_gone, topic)

        def give_up_if_gone(topic: str) -> None:
            if client.cluster.partitions_for_topic(topic) is None:
                gone.add(topic)
                with contextlib.suppress(RuntimeError):
                    limit.reschedule(loop.time())

        gone = set[str]()
        client = self._kafka.client
        try:
            async with asyncio.timeout(self.deadline) as limit:
                self._kafka._sender.postpone = postpone
                self._kafka._sender.missing = missing
                await self._kafka.begin_transaction()
                yield self._kafka
                await self._kafka.commit_transaction()
        except TimeoutError as error:
            if gone:
                raise KafkaLost(f"not in Kafka any more: {', '.join(sorted(gone))}") from error
            raise self._late(is_last=loop.time() >= last) from error
        except (KafkaError, KafkaLost, AssertionError) as error:
            found = await explained(self._with_topic(error), self._options)
            if found.retry is Retry.MANUAL and not isinstance(found, Fenced):
                await self._abort()
            raise found from error

    async def _abort(self) -> None:
        """Abort the open transaction, as this producer's last request; if that fails, its time-out ends it."""
        assert self._kafka is not None
        with contextlib.suppress(TimeoutError, KafkaError, KafkaLost, AssertionError):
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._kafka.abort_transaction()

    def _with_topic(self, error: BaseException) -> BaseException:
        """Return the same error with its topic, if aiokafka has omitted it."""
        last_refusal = (
            getattr(self._kafka._sender, "last_refusal", None) if self._kafka is not None else None
        )
        return last_refusal if type(last_refusal) is type(error) and not error.args else error

    def _late(self, *, is_last: bool) -> AqueductError:
        """Return why a transaction was late: a broker's last answer, if it refused a batch to the end.

        ``is_last``: whether it may no longer wait for the previous transaction.
        """
        assert self._kafka is not None
        if (last_refusal := getattr(self._kafka._sender, "last_refusal", None)) is not None:
            return translated(last_refusal)
        if short := too_few(self._kafka.client.cluster):
            return short
        if is_last and not self._kafka._txn_manager.txn_partitions:
            return KafkaLost(
                "the previous transaction is not finished: the brokers did not write its end to all of its "
                f"partitions within {MARKERS_TIMEOUT:.0f} s"
            )
        return KafkaSlow(f"{self.deadline:.0f} s were not enough")

    async def discard(self) -> None:
        """End the producer without waiting for anything still to be sent."""
        if self._kafka is not None:
            producer, self._kafka = self._kafka, None
            await _stopped(producer)


async def send_finished(
    kafka: AIOKafkaProducer, batch: FinishedBatch
) -> asyncio.Future[RecordMetadata]:
    """Put a batch into the open transaction; return the future of its result, to be awaited.

    Wait until earlier batches of the same partition are sent. Raise RecordTooLarge or BatchTooLarge.
    """
    if len(batch.raw) > LARGEST_BATCH:
        raise too_large(batch, LARGEST_BATCH)
    sent: asyncio.Future[RecordMetadata] = await kafka.send_batch(
        Sendable(batch), batch.topic, partition=batch.partition
    )
    return sent


def too_few(cluster: Any) -> TooFewBrokers | None:
    """Return an error if partitions of three or more copies have fewer than two in sync, and so refuse records.

    A coordinator whose own topic is in that state reports only that it is not available.
    """
    found = [
        f"{topic} [{number}]"
        for topic, partitions in cluster._partitions.items()
        for number, one in partitions.items()
        if len(one.replicas) > _SPARE and len(one.isr) < _SPARE
    ]
    if not found:
        return None
    shown = ", ".join(found[:3])
    return TooFewBrokers(f"one copy or none is in sync of {len(found)} partitions, such as {shown}")


class _AnswerRecorder(SendProduceReqHandler):  # type: ignore[misc]
    """Sends batches, and records the refusal because of which a batch is sent again."""

    def handle_response(self, response: Any) -> None:
        self._sender.last_refusal = None
        super().handle_response(response)

    def _can_retry(self, error: Any, batch: Any) -> bool:
        if isinstance(error, BrokerResponseError):
            error.args = error.args or (f"{batch.tp.topic} [{batch.tp.partition}]",)
            self._sender.last_refusal = error
            if isinstance(error, UnknownTopicOrPartitionError):
                self._sender.missing(batch.tp.topic)
        return bool(super()._can_retry(error, batch))


def _adding(sender: Any) -> Callable[[set[TopicPartition]], Awaitable[None]]:
    """Return a function that adds partitions to a transaction like aiokafka's sender, by _PartitionsAdder."""

    async def add(partitions: set[TopicPartition]) -> None:
        node = await sender._find_coordinator(_COORDINATOR, sender._txn_manager.transactional_id)
        await _PartitionsAdder(sender, partitions).do(node)

    return add


def _record_answers(sender: Any) -> None:
    """Run aiokafka's sender with the handler that records answers."""

    async def send(node_id: int, batches: dict[TopicPartition, Any]) -> None:
        await _AnswerRecorder(sender, batches).do(node_id)
        sender._in_flight.remove(node_id)
        for partition in batches:
            sender._muted_partitions.remove(partition)

    sender._send_produce_req = send


def _keep_topics(client: Any) -> None:
    """Make each refresh of metadata request every topic that was sent to.

    aiokafka requests all topics until a topic is missing, and from then on only topics that were once
    missing. After that the leaders of all other topics were unknown, and their batches waited until
    the transaction timed out.
    """
    wait = client._wait_on_metadata

    async def kept(topic: str) -> set[int]:
        client._topics.add(topic)
        partitions: set[int] = await wait(topic)
        return partitions

    client._wait_on_metadata = kept


def _wrap_sequences(manager: Any) -> None:
    """Restart sequence numbers at 0 after 2**31 records, as brokers expect; aiokafka continues at -2**31."""

    def increment(partition: TopicPartition, records: int) -> None:
        sequences = manager._sequence_numbers
        sequences[partition] = (sequences[partition] + records) & 0x7FFFFFFF

    manager.increment_sequence_number = increment


async def _end_transaction(sender: Any, commit_result: Any) -> None:
    """End a transaction as aiokafka's sender does, with the handler that sends a single request."""
    await sender._message_accumulator.flush_for_commit()
    manager = sender._txn_manager
    if manager.is_empty_transaction():
        manager.complete_transaction()
        return
    node = await sender._find_coordinator(_COORDINATOR, manager.transactional_id)
    await _EndTxnOnce(sender, commit_result).do(node)


async def _stopped(producer: AIOKafkaProducer) -> None:
    """Close a producer in whatever state it is, within seconds and without flushing."""
    producer._closed = True
    sender = producer._sender
    if sender.sender_task is not None:
        sender.sender_task.cancel()
        await asyncio.wait([sender.sender_task], timeout=2)
    with contextlib.suppress(TimeoutError, KafkaError, OSError):
        await asyncio.wait_for(producer.client.close(), timeout=2)


async def put_all(
    kafka: AIOKafkaProducer,
    topic: str,
    partition: int,
    records: Iterable[tuple[bytes, bytes | None]],
) -> list[asyncio.Future[RecordMetadata]]:
    """Put records of one partition into an open transaction; return futures of their results, to be awaited."""
    sent: list[asyncio.Future[RecordMetadata]] = []
    for key, value in records:
        one = asyncio.ensure_future(
            await kafka.send(topic, key=key, value=value, partition=partition)
        )
        # If a later record is refused at once, this record's outcome is no longer awaited.
        one.add_done_callback(lambda done: done.cancelled() or done.exception())
        sent.append(one)
    return sent


async def send_all(
    kafka: AIOKafkaProducer,
    topic: str,
    partition: int,
    records: Iterable[tuple[bytes, bytes | None]],
) -> list[int]:
    """Send records to one partition within a transaction; return their offsets once all are acknowledged."""
    sent = await put_all(kafka, topic, partition, records)
    return [int(one.offset) for one in await asyncio.gather(*sent)]


# Adding one record to a topic outside any transaction: for records that only inform, and may
# occur twice.
#
# Invariant: append() returns once all in-sync replicas have the record, and raises otherwise.


async def append(
    options: Mapping[str, Any], topic: str, partition: int, *, key: bytes, value: bytes
) -> int:
    """Add a record; return its offset. Raise KafkaLost, KafkaDenied or the error of the broker's refusal."""
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
