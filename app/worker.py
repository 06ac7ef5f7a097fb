"""The composition root: settings in, a Faust app out.

The law: here alone are the parts put together; Faust does only what it does well: the group of workers, and
tables with changelogs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import faust
from mode import Service

from app import journal_agent, metrics
from app.about import __version__
from app.central_store import CentralStore
from app.destination import Destination
from app.faults import point
from app.faust_app import AqueductApp, give_up
from app.http import HttpServer
from app.plans import central_store, destination_plan, kafka_client, topic_plans
from app.settings import Settings, load
from app.whole_history import whole_history
from connectors.errors import SettingsError
from connectors.kafka.client import KafkaClient
from connectors.kafka.topics import TopicPlan
from tables.cursor import Cursor
from tables.faust_tables import FaustCheckpoint
from tables.history import SchemaHistory
from tables.quarantine import Resolution
from tables.source_choice import Asked

log = logging.getLogger(__name__)

STATUS_LINE_SECONDS = 10.0


class Destinations(Service):  # type: ignore[misc]
    """Runs all destinations of this worker, and says each ten seconds how they are."""

    def __init__(
        self,
        destinations: dict[str, Destination],
        store: CentralStore | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._destinations = destinations
        self._store = store

    async def on_start(self) -> None:
        """Begin a run of each."""
        if self._store is not None:
            self._store.start()
        for destination in self._destinations.values():
            self.add_future(destination.run())

    @Service.task  # type: ignore[untyped-decorator]
    async def _tell(self) -> None:
        while not self.should_stop:
            await self.sleep(STATUS_LINE_SECONDS)
            for destination in self._destinations.values():
                log.info("status %s", destination.status.line())

    async def on_stop(self) -> None:
        """Let the central store have what was committed last, if it answers at once."""
        point("stop.begun")
        if self._store is not None:
            await asyncio.to_thread(self._store.stop)

    def observe(self, cursor: Cursor) -> None:
        """Pass on a cursor that was folded from the journal."""
        if cursor.destination in self._destinations:
            self._destinations[cursor.destination].observe(cursor)

    def resolve(self, resolution: Resolution) -> None:
        """Pass on a resolution that was folded from the journal."""
        if resolution.destination in self._destinations:
            self._destinations[resolution.destination].resolve(resolution)

    def ask(self, wish: Asked) -> None:
        """Pass on a wish for another source that was folded from the journal."""
        if wish.destination in self._destinations:
            self._destinations[wish.destination].ask(wish)

    def status(self) -> dict[str, Any]:
        """For the status page."""
        return {name: one.status.to_json() for name, one in self._destinations.items()}


def app_from_environment() -> AqueductApp:
    """The app that ``faust -A app`` runs; settings that are not usable end the process with one message."""
    try:
        return build(load())
    except SettingsError as error:
        give_up(error)


def build(settings: Settings) -> AqueductApp:
    """Put a worker together."""
    metrics.BUILD.labels(__version__).set(1)
    kafka = kafka_client(settings)
    options, plans = kafka.options(), topic_plans(settings)
    app = AqueductApp(
        f"{settings.prefix}.__worker",
        broker=[f"kafka://{server}" for server in kafka.bootstrap_servers.split(",")],
        broker_credentials=_faust_credentials(kafka),
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
    store = _central_store(settings, plans.journal(), options)
    destinations = Destinations(
        {
            name: Destination(
                destination_plan(settings, name, options, plans),
                checkpoint,
                store.mirror(name) if store else None,
            )
            for name in settings.destinations
        },
        store,
    )
    topic = app.topic(
        plans.journal().name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=settings.topics.journal_partitions,
    )
    journal_agent.install(
        app,
        topic,
        checkpoint,
        on_cursor=destinations.observe,
        on_resolution=destinations.resolve,
        on_wish=destinations.ask,
    )

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


def _central_store(
    settings: Settings, plan: TopicPlan, options: dict[str, Any]
) -> CentralStore | None:
    store = central_store(settings)

    def journal(destination: str) -> SchemaHistory:
        return asyncio.run(
            whole_history(destination, topic=plan.name, partitions=plan.partitions, options=options)
        )

    return CentralStore(store, journal) if store else None


def _faust_credentials(kafka: KafkaClient) -> Any:
    if kafka.sasl:
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=kafka.sasl_password,
            mechanism=kafka.sasl_mechanism,
            ssl_context=kafka.ssl_context(),
        )
    return faust.SSLCredentials(context=kafka.ssl_context()) if kafka.tls else None
