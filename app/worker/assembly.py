"""The composition root: settings in, a Faust app out.

Invariant: the parts are put together here alone. Faust provides only the group of workers and
tables with changelogs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import faust

from app import metrics
from app.settings.file import refuse_unwritable
from app.settings.model import Settings, load
from app.version import __version__
from app.worker.coordination.cluster_view import Identity, Nodes
from app.worker.coordination.leadership import Leadership, SingleWorker
from app.worker.coordination.zookeeper_leadership import ZooKeeperLeadership
from app.worker.destination.destination import Destination
from app.worker.destination.destinations import Destinations
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.recovery import (
    committed_history,
    earlier_requests,
    installation_of,
    reads_journal,
)
from app.worker.logical_schemas.plan import CurrentRoutes
from app.worker.logical_schemas.unit import FollowedRoutes, logical_schemas_unit
from app.worker.mapping_versions.watch import MappingWatch
from app.worker.merge.run import merge_unit
from app.worker.process import journal_agent
from app.worker.process.faust_app import AqueductApp, give_up
from app.worker.process.http import HttpServer
from app.worker.process.journal_agent import journal_tail
from app.worker.process.kafka_watch import KafkaWatch
from app.worker.process.library_logs import escape_values, quiet_libraries
from app.worker.schemas.store_mirror import CentralStore
from app.worker.unit.takeover import client_id, group_of
from app.worker.wiring import (
    central_store,
    coordination_plan,
    destination_plan,
    is_mapped,
    kafka_client,
    logical_schemas_plan,
    merge_plans,
    topic_plans,
)
from connectors.errors import SettingsError
from connectors.kafka.client import KafkaClient, Liveness
from connectors.kafka.producer import append as append_record
from connectors.kafka.reading import read_in_pieces
from connectors.kafka.topics import TopicPlan
from connectors.zookeeper.kazoo_session import opens
from tables.history.history import SchemaHistory
from tables.history.logical_schemas.decisions import UNIT
from tables.journal_format import Entry
from tables.state.journal.faust_checkpoint import FaustCheckpoint
from tables.state.journal.state import JournalPartition, partition_of
from tables.state.operator_requests import Control


def app_from_environment() -> AqueductApp:
    """Return the app that ``faust -A app`` runs; unusable settings end the process with one message."""
    try:
        settings = load()
        refuse_unwritable(settings.data_dir)
        return build(settings)
    except SettingsError as error:
        give_up(error)


def build(settings: Settings) -> AqueductApp:
    """Put a worker together."""
    escape_values()
    quiet_libraries()
    metrics.BUILD.labels(__version__).set(1)
    kafka = kafka_client(settings)
    options, plans = kafka.options(), topic_plans(settings)
    app = AqueductApp(
        group_of(settings.prefix),
        broker=[f"kafka://{server}" for server in kafka.bootstrap_servers.split(",")],
        broker_credentials=_faust_credentials(kafka),
        broker_client_id=client_id(settings.worker.id),
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
    checkpoint = FaustCheckpoint(app, partitions=settings.topics.journal_partitions)
    app.needed = (plans.journal(), *map(plans.changelog, checkpoint.changelogs))
    app.kafka_options = options
    app.folded = (plans.journal().name,)
    app.journal_is = partial(setattr, checkpoint, "journal")
    app.folds_from_start = checkpoint.begin
    store = _central_store(settings, plans.journal(), options)

    def plan(of: Settings, name: str) -> Plan:
        return destination_plan(of, name, options, plans)

    journal = plans.journal()

    def make(of: Settings, name: str) -> Destination:
        mirror = store.mirror(name) if store else None
        return Destination(plan(of, name), checkpoint, mirror, lambda: tail.placed(), mappings)

    async def append(name: str, note: Entry) -> None:
        partition = partition_of(name, journal.partitions)
        await append_record(options, journal.name, partition, key=note[0], value=note[1])

    async def known() -> list[Control]:
        await app.tables.recovery.completed.wait()
        await tail.placed()
        read = reads_journal(journal.name, options)
        return await earlier_requests(checkpoint, partitions=journal.partitions, read=read)

    async def installation() -> str:
        return await installation_of(journal.name, options=options, worker=settings.worker.id)

    mappings = _mapping_watch(settings, lambda: destinations.mapping_changed())
    destinations = Destinations(
        settings, make,
        load=load, plan=plan, installation=installation, append=append, known=known, store=store,
    )  # fmt: skip
    tail = destinations.tail = journal_tail(
        journal.name, journal.partitions, options=options, notify=destinations.notify
    )
    identity = Identity(worker=settings.worker.id, address=settings.worker.advertised_address)
    merges = merge_plans(settings, options, plans)
    units = [merge_unit(one, installation, identity) for one in merges]
    if is_mapped(settings):
        schemas_plan = logical_schemas_plan(
            settings, options, plans, _routes(destinations, mappings)
        )
        units.append(logical_schemas_unit(schemas_plan, installation, identity))
    destinations.units = {one.name: one for one in units}
    destinations.leadership = _leadership(settings, destinations, identity)
    topic = app.topic(
        journal.name,
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
        lambda part, start: read_in_pieces(options, journal.name, part, start=start),
    )

    watch = KafkaWatch(Liveness(options).check, destinations.kafka)

    def status() -> dict[str, Any]:
        worker = settings.worker
        lost = watch.lost
        return {
            "worker": worker.id,
            "address": worker.advertised_address,
            "version": __version__,
            "error": app.error or (lost and f"{lost.name}: {lost}"),
            "coordination": destinations.leadership.to_json(),
            "journal": tail.to_json(),
            "destinations": destinations.status(),
            **(
                {"merges": {one.name: destinations.status_of(one.unit) for one in merges}}
                if merges
                else {}
            ),
            **(
                {"logical_tables": destinations.status_of(UNIT)}
                if UNIT in destinations.units
                else {}
            ),
        }

    app.http = HttpServer(settings.http.bind, settings.http.port, status)
    app.services = (app.http, destinations, watch, *([mappings] if mappings is not None else []))
    app.is_kafka_lost = lambda: watch.lost is not None
    app.banner = (
        f"Aqueduct {__version__}: worker {settings.worker.id}, prefix {settings.prefix}, "
        f"{len(settings.destinations)} destination(s), status at {app.http.url}/status"
    )
    app.before_stop = destinations.leave
    return app


def _leadership(settings: Settings, destinations: Destinations, identity: Identity) -> Leadership:
    coordination = coordination_plan(settings)
    if coordination is None:
        return SingleWorker(destinations)
    client, root, delay = coordination
    return ZooKeeperLeadership(
        destinations,
        opens(client),
        identity=identity,
        nodes=Nodes(root),
        prefix=settings.prefix,
        delay=delay,
    )


def _mapping_watch(settings: Settings, changed: Callable[[], None]) -> MappingWatch | None:
    """The watch on the mapping's versions; None if the mapping is read from a file."""
    coordination = coordination_plan(settings)
    if settings.mapping.store != "zookeeper" or coordination is None:
        return None
    client, root, _ = coordination
    return MappingWatch(
        opens(client),
        root,
        usable=lambda mapping: settings.mapping.usable(mapping, settings.prefix),
        changed=changed,
    )


def _routes(destinations: Destinations, mappings: MappingWatch | None) -> CurrentRoutes:
    """The routes of all destinations now: by the settings, or by the newest mapping in ZooKeeper."""
    if mappings is None:
        return destinations.routes
    watch = mappings
    return FollowedRoutes(
        settled=destinations.routes,
        newest=lambda: watch.newest.mapping if watch.newest is not None else None,
    )


def _central_store(
    settings: Settings, plan: TopicPlan, options: dict[str, Any]
) -> CentralStore | None:
    store = central_store(settings)

    def journal(destination: str) -> SchemaHistory:
        return asyncio.run(committed_history(JournalPartition.of(destination, plan, options)))

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
