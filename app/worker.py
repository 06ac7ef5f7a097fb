"""The composition root: settings in, a Faust app out.

The law: here alone are the parts put together; nothing below knows where its settings come from, and Faust does
only what it does well: the group of workers, and tables with changelogs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any, NoReturn

import faust
from faust.app.base import BootStrategy
from faust.transport.drivers import aiokafka as driver
from mode import Service
from yarl import URL

from app import journal_agent, metrics
from app.about import __version__
from app.destination import Destination, Plan
from app.http import HttpServer
from app.pipeline.assemble import Rules
from app.pipeline.filter import TableFilter
from app.publisher import TopicPlans
from app.settings import DestinationSettings, Settings, StartAtFile, StartAtGtids, load
from connectors.errors import AqueductError, Retry, SettingsError
from connectors.kafka.topics import Topics
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.server import SourceAddress
from connectors.mysql.start import AfterGtids, AtCoordinates, Earliest, Latest, Start
from tables.cursor import Cursor
from tables.faust_tables import FaustCheckpoint

log = logging.getLogger(__name__)

STATUS_LINE_SECONDS = 10.0
EXIT_CONFIGURATION = 78
"""The exit code for settings that are not usable (EX_CONFIG of sysexits.h)."""


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]  # faust has no types
    """Faust picks the isolation level by a flag that also changes how it commits; only the level is wanted."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        self.consumer.in_transaction = True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False


class _ReadCommittedConsumer(driver.Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> Any:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)


class _ReadCommittedTransport(driver.Transport):  # type: ignore[misc]
    Consumer = _ReadCommittedConsumer


class _WithoutFaustWeb(BootStrategy):  # type: ignore[misc]
    """`faust worker` turns Faust's web server on, whatever the app's settings say: it listens on all
    interfaces and shows the tables to whoever asks."""

    enable_web = False


class AqueductApp(faust.App):  # type: ignore[misc]
    """A Faust app that reads only what was committed, and begins with our services."""

    BootStrategy = _WithoutFaustWeb
    http: HttpServer
    services: tuple[Service, ...] = ()
    plans: TopicPlans
    kafka_options: dict[str, Any]

    @property
    def web_server_url(self) -> URL:
        """Our own HTTP server, for Faust's banner."""
        return URL(self.http.url)

    def _new_transport(self) -> Any:
        return _ReadCommittedTransport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Make the journal before Faust subscribes to it: it ignores a topic that is not there."""
        await super().on_first_start()
        pause = 0.5
        while True:
            try:
                await Topics(self.kafka_options).ensure(self.plans.journal())
                return
            except AqueductError as error:
                log.error("%s: %s", error.name, error)
                if error.retry is not Retry.TIMED:
                    give_up(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 30.0)

    async def on_start(self) -> None:
        """Start our services at once; taking over waits for no recovery of Faust's tables."""
        await super().on_start()
        try:
            for service in self.services:
                await self.add_runtime_dependency(service)
        except AqueductError as error:
            give_up(error)


class Destinations(Service):  # type: ignore[misc]
    """Runs all destinations of this worker, and says each ten seconds how they are."""

    def __init__(self, destinations: dict[str, Destination], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._destinations = destinations

    async def on_start(self) -> None:
        """Begin a run of each."""
        for destination in self._destinations.values():
            self.add_future(destination.run())

    @Service.task  # type: ignore[untyped-decorator]
    async def _tell(self) -> None:
        while not self.should_stop:
            await self.sleep(STATUS_LINE_SECONDS)
            for destination in self._destinations.values():
                log.info("status %s", destination.status.line())

    def observe(self, cursor: Cursor) -> None:
        """Pass on a cursor that was folded from the journal."""
        if cursor.destination in self._destinations:
            self._destinations[cursor.destination].observe(cursor)

    def status(self) -> dict[str, Any]:
        """For the status page."""
        return {name: one.status.to_json() for name, one in self._destinations.items()}


def give_up(error: AqueductError) -> NoReturn:
    """End the process at once with one line; Faust would show a traceback for each of its services."""
    logging.shutdown()
    print(f"aqueduct: {error.name}: {error}", file=sys.__stderr__, flush=True)
    os._exit(EXIT_CONFIGURATION)


def app_from_environment() -> AqueductApp:
    """The app that ``faust -A app`` runs; settings that are not usable end the process with one message."""
    try:
        return build(load())
    except SettingsError as error:
        give_up(error)


def build(settings: Settings) -> AqueductApp:
    """Put a worker together."""
    metrics.BUILD.labels(__version__).set(1)
    kafka = settings.kafka
    options = kafka_options(settings)
    plans = topic_plans(settings)
    app = AqueductApp(
        f"{settings.prefix}.__worker",
        broker=[f"kafka://{server}" for server in kafka.bootstrap_servers.split(",")],
        broker_credentials=_faust_credentials(settings),
        store="memory://",
        datadir=str(settings.data_dir),
        web_enabled=False,
        topic_disable_leader=True,
        topic_replication_factor=settings.topics.replication_factor,
        topic_partitions=settings.topics.journal_partitions,
        # After kill -9 the group waits this long for the dead member; Faust's own default is 60 s.
        broker_session_timeout=10.0,
        broker_heartbeat_interval=3.0,
        producer_request_timeout=30.0,
    )
    app.plans, app.kafka_options = plans, options
    checkpoint = FaustCheckpoint(app, partitions=settings.topics.journal_partitions)
    destinations = Destinations(
        {
            name: Destination(_plan(settings, name, options, plans), checkpoint)
            for name in settings.destinations
        }
    )
    topic = app.topic(
        plans.journal().name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=settings.topics.journal_partitions,
    )
    journal_agent.install(app, topic, checkpoint, on_cursor=destinations.observe)

    def status() -> dict[str, Any]:
        worker = settings.worker
        return {
            "worker": worker.id,
            "address": worker.advertised_address,
            "version": __version__,
            "destinations": destinations.status(),
        }

    app.http = HttpServer(settings.http.bind, settings.http.port, status)
    app.services = (app.http, destinations)
    return app


def kafka_options(settings: Settings) -> dict[str, Any]:
    """What every client of aiokafka's is given."""
    kafka = settings.kafka
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": kafka.security_protocol,
    }
    if "SSL" in kafka.security_protocol:
        from aiokafka.helpers import create_ssl_context

        options["ssl_context"] = create_ssl_context(cafile=kafka.ssl_cafile)
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        secret = kafka.sasl_password
        options["sasl_plain_password"] = secret.get_secret_value() if secret else None
    return options


def _faust_credentials(settings: Settings) -> Any:
    kafka = settings.kafka
    if kafka.security_protocol == "PLAINTEXT":
        return None
    context = kafka_options(settings).get("ssl_context")
    if kafka.security_protocol == "SSL":
        return faust.SSLCredentials(context=context)
    return faust.SASLCredentials(
        username=kafka.sasl_username,
        password=kafka.sasl_password.get_secret_value() if kafka.sasl_password else None,
        mechanism=kafka.sasl_mechanism,
        ssl_context=context,
    )


def topic_plans(settings: Settings) -> TopicPlans:
    """How this installation's topics have to be."""
    topics = settings.topics
    return TopicPlans(
        prefix=settings.prefix,
        partitions=topics.partitions,
        replication_factor=topics.replication_factor,
        cleanup_policy=topics.cleanup_policy,
        retention_ms=topics.retention_ms,
        max_message_bytes=topics.max_message_bytes,
        journal_partitions=topics.journal_partitions,
    )


def _plan(settings: Settings, name: str, options: dict[str, Any], topics: TopicPlans) -> Plan:
    destination = settings.destinations[name]
    return Plan(
        name=name,
        worker=settings.worker.id,
        address=_address(settings, destination),
        start=_start(destination),
        rules=Rules(
            prefix=settings.prefix,
            destination=name,
            filter=TableFilter(destination.filter.include, destination.filter.black),
            borders=settings.provide_transaction_metadata,
            max_bytes=settings.publish.max_bytes,
        ),
        topics=topics,
        kafka_options=options,
        compression=settings.publish.compression,
        interval=settings.publish.interval_ms / 1000,
        max_bytes=settings.publish.max_bytes,
    )


def _address(settings: Settings, destination: DestinationSettings) -> SourceAddress:
    source = destination.source
    return SourceAddress(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.secret(),
        server_id=destination.server_id,
        replica_uuid="",
        report_host=settings.worker.advertised_address.rpartition(":")[0] or settings.worker.id,
        default_database=destination.default_database,
        charset=destination.connection_charset,
        time_zone=destination.time_zone,
        heartbeat=destination.heartbeat_seconds,
    )


def _start(destination: DestinationSettings) -> Start:
    start = destination.start
    if isinstance(start, StartAtFile):
        return AtCoordinates(Coordinates(start.file, start.pos))
    if isinstance(start, StartAtGtids):
        return AfterGtids(GtidSet.parse(start.gtid_set))
    return Earliest() if start == "earliest" else Latest()
