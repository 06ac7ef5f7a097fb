"""The Faust app, with isolation level, assignor and web server overridden.

Invariant: it reads committed records only, runs no web server, and creates no topics: the topics it
reads exist before it starts. The rest of Faust is unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

import faust
from faust.app import base
from faust.app.base import BootStrategy
from faust.assignor import PartitionAssignor
from faust.cli.worker import worker as worker_command
from faust.tables import recovery
from faust.transport.drivers import aiokafka as driver
from mode import Service
from yarl import URL

from app import metrics
from app.worker.process import library_logs as logs
from app.worker.process.http import HttpServer
from connectors.backoff import Backoff
from connectors.errors import AqueductError, Retry
from connectors.kafka.error_mapping import DENIED, translated
from connectors.kafka.topics import TopicPlan, Topics

log = logging.getLogger(__name__)

recovery.E_PERSISTED_OFFSET = (
    "The changelog of Faust's table was deleted or recreated while this worker ran: partition {0} was read up "
    "to {1} and ends at {2}. Nothing is lost. The worker ends; once it is started again, the table is filled "
    "from the journal by itself."
)

EXIT_CONFIGURATION = 78
"""The exit code for unusable settings (EX_CONFIG of sysexits.h)."""
_DENIED_SECONDS = 5.0
"""The pause before a read that an ACL denied is repeated."""
_STOP_SECONDS = 8.0
"""Limit of an orderly end, even if nothing answers; systemd and Kubernetes kill after 30 s at the latest."""

# Faust prints a table of its own settings; ours shows what an operator looks for.
worker_command.banner = lambda self, _worker: self.app.banner


class _OurThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # faust has no types
    """Faust's consumer thread, which reads committed records only, and waits while an ACL is missing.

    Without the wait, Faust would end the process with a traceback. The ACL may be granted again.
    """

    logger = logs.SERVICES

    def _create_worker_consumer(self, transport: Any) -> Any:
        # Faust selects the isolation level by a flag that also changes how it commits.
        self.consumer.in_transaction = True
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
        commit = consumer.commit

        async def commit_if_let(offsets: Any) -> None:
            # Offsets that are not committed here are committed with the next ones; folding a record
            # twice changes nothing.
            try:
                await commit(offsets)
            except DENIED as error:
                _warn_denied(error)

        consumer.commit = commit_if_let
        return consumer

    async def getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's own
        """See Faust's."""
        try:
            return await super().getmany(active_partitions, timeout)
        except DENIED as error:
            _warn_denied(error)
            await asyncio.sleep(_DENIED_SECONDS)
            return {}


def _warn_denied(denied: Exception) -> None:
    error = translated(denied)
    log.error("%s: %s", error.name, error)


class _OurConsumer(driver.Consumer):  # type: ignore[misc]
    logger = logs.SERVICES

    def _new_consumer_thread(self) -> Any:
        return _OurThread(self, loop=self.loop, beacon=self.beacon)

    async def seek_to_committed(self) -> Any:
        """See Faust's; a partition that lacks its rows, or the first of them, is read from its beginning."""
        found = dict(await super().seek_to_committed())
        streams = [tp for tp in self.assignment() if tp.topic in self.app.folded]
        unread = [tp for tp in streams if self.app.folds_from_start(tp.partition)]
        if unread:
            log.info("the journal is folded from its beginning: partition(s) %s", _numbers(unread))
            for tp, offset in (await self.earliest_offsets(*unread)).items():
                # In the fetching thread: a seek elsewhere could remove records that this thread is just
                # returning, and Faust would end the process.
                await self._thread.call_thread(self._thread.seek, tp, offset)
                found[tp] = 0
        return found

    async def seek_wait(self, partitions: Mapping[Any, int | None]) -> None:
        """See Faust's; partitions whose offset is not known yet are omitted.

        A rebalance assigned them after the offsets were read. Faust will begin again because of the rebalance,
        but before that its own seek would end the process with a ValueError.
        """
        await super().seek_wait({tp: at for tp, at in partitions.items() if at is not None})


def _numbers(partitions: Iterable[Any]) -> str:
    return ", ".join(str(tp.partition) for tp in sorted(partitions))


class _OurTransport(driver.Transport):  # type: ignore[misc]
    logger = logs.SERVICES
    Consumer = _OurConsumer


class Assignor(PartitionAssignor):  # type: ignore[misc]
    """Faust's assignor, which also assigns topics that brokers do not report at the moment.

    A starting broker may know only some topics, and one of several brokers may learn of a new topic
    late. Faust's own assignor fails on such topics, and then waits forever.
    """

    def _perform_assignment(self, cluster: Any, member_metadata: Any) -> Any:
        reported = _ClusterView(cluster, self.app.conf.topic_partitions)
        return super()._perform_assignment(reported, member_metadata)


@dataclass(frozen=True, slots=True)
class _ClusterView:
    """A cluster as Faust's assignor queries it; all topics that Faust reads have equally many partitions."""

    cluster: Any
    partitions: int

    def partitions_for_topic(self, topic: str) -> set[int]:
        known: set[int] | None = self.cluster.partitions_for_topic(topic)
        return known or set(range(self.partitions))


class _WithoutFaustWeb(BootStrategy):  # type: ignore[misc]
    """Disables Faust's web server, which `faust worker` enables whatever the app's settings are.

    That server listens on all interfaces and shows the tables to anyone.
    """

    enable_web = False


class AqueductApp(faust.App):  # type: ignore[misc]
    """A Faust app that reads committed records only, and starts our services first."""

    logger = logs.SERVICES
    BootStrategy = _WithoutFaustWeb
    http: HttpServer
    services: tuple[Service, ...] = ()
    before_stop: Callable[[], Awaitable[None]] | None = None
    """Called before Faust leaves its group; leaving takes seconds."""
    needed: tuple[TopicPlan, ...] = ()
    """All topics that Faust reads."""
    kafka_options: dict[str, Any]
    folded: Collection[str] = ()
    """The topics that Faust folds into tables."""
    folds_from_start: Callable[[int], bool] = staticmethod(lambda _: False)
    """Returns whether a partition of the folded topics is to be folded from its beginning."""
    journal_is: Callable[[str], None] = staticmethod(lambda _: None)
    """Called with the id of the folded topic; empty if no broker reports it."""
    error: str | None = None
    """The error that delays the start of the worker; None if there is none."""
    banner: str = "Aqueduct"
    """The first line of the log."""
    is_kafka_lost: Callable[[], bool] = staticmethod(lambda: False)
    """Whether no broker answers now."""
    _deadline: threading.Timer | None = None
    _waits_for: str = "its destinations"
    """What an orderly end still waits for."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, PartitionAssignor=Assignor, topic_allow_declare=False, **options)

    @property
    def web_server_url(self) -> URL:
        """Return the URL of our own HTTP server, for Faust's banner."""
        return URL(self.http.url)

    def agent(self, *args: Any, **options: Any) -> Any:
        """See Faust's, but without marking agents for discovery, which would search all imported modules."""
        marked = super().agent(*args, **options)

        def unmarked(fun: Any) -> Any:
            real, base.venusian = base.venusian, SimpleNamespace(attach=lambda *_, **__: None)
            try:
                return marked(fun)
            finally:
                base.venusian = real

        return unmarked

    def _new_transport(self) -> Any:
        return _OurTransport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Create the topics that Faust reads, before it subscribes.

        Faust ignores a missing topic, and assumes that every broker knows its new topics at once.
        """
        logs.show_all_if_debugging()
        await super().on_first_start()
        await self._await_start(self.http.maybe_start())
        backoff = Backoff(0.5, 30.0)
        while True:
            try:
                topics = Topics(self.kafka_options)
                await topics.ensure(*self.needed)
                for name in self.folded:
                    self.journal_is(await topics.id_of(name) or "")
                metrics.KAFKA_UP.set(1)
                if self.error is not None:
                    log.info("Kafka answers; the worker starts")
                self.error = None
                return
            except AqueductError as error:
                metrics.KAFKA_UP.set(0)
                reported, self.error = self.error, f"{error.name}: {error}"
                if reported != self.error:
                    log.error("%s", self.error)
                if error.retry is not Retry.TIMED:
                    give_up(error)
                await asyncio.sleep(backoff.pause())

    async def on_stop(self) -> None:
        """Let other workers take over before anything else is stopped."""
        # Without brokers, Faust may wait forever, and so may one of our transactions.
        self._deadline = threading.Timer(_STOP_SECONDS, self._end_late)
        self._deadline.daemon = True
        self._deadline.start()
        # Faust's consumer thread may be stopped in a request that no broker answers.
        threading.excepthook = _ended_in_midst
        if self.before_stop is not None:
            await self.before_stop()
        if self.is_kafka_lost():
            self._end_now("Kafka does not answer, so Faust cannot leave its group")
        self._waits_for = "Faust"
        await super().on_stop()

    async def on_shutdown(self) -> None:
        """Cancel the deadline; called after all services have ended."""
        await super().on_shutdown()
        if self._deadline is not None:
            self._deadline.cancel()

    def _end_late(self) -> NoReturn:
        self._end_now(f"{self._waits_for} did not end within {_STOP_SECONDS:.0f} s")

    def _end_now(self, why: str) -> NoReturn:
        """End the process; Kafka aborts what was not committed, and the next leader reads it again."""
        log.warning(
            "the process ends without waiting: %s. Nothing is lost: the next leader resumes from the last "
            "committed cursor.", why,
        )  # fmt: skip
        logging.shutdown()
        os._exit(0)

    async def on_start(self) -> None:
        """Start our services at once, so that no takeover waits for the recovery of Faust's tables."""
        await super().on_start()
        for service in self.services:
            await self._await_start(self.add_runtime_dependency(service))

    async def _await_start(self, starting: Awaitable[Any]) -> None:
        try:
            await starting
        except AqueductError as error:
            give_up(error)


def _ended_in_midst(ended: threading.ExceptHookArgs) -> None:
    log.debug("a thread ended by %r", ended.exc_value)


def give_up(error: AqueductError) -> NoReturn:
    """End the process at once with one line; Faust would show a traceback for each of its services."""
    logging.shutdown()
    print(f"aqueduct: {error.name}: {error}", file=sys.__stderr__, flush=True)
    os._exit(EXIT_CONFIGURATION)
