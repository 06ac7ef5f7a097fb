"""Translation of settings into the arguments of the parts.

Invariant: nothing below this file knows the settings' names, and nothing is decided here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from app.settings.model import DestinationSettings, Settings, SnapshotSettings, SourceSettings
from app.settings.start_position import start_position
from app.worker.destination.plan import Failover, Plan, SnapshotPlan, Source
from app.worker.logical_schemas.plan import CurrentRoutes, LogicalSchemasPlan
from app.worker.merge.plan import UNIT, MergePlan
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.client import KafkaClient
from connectors.kafka.record_batches import MAX_BATCH_BYTES
from connectors.mysql.schema_store import MetaStore
from connectors.mysql.select.load_limits import LoadLimits
from connectors.mysql.select.spool import Spools
from connectors.mysql.server.connection import SourceAddress, Tls
from connectors.store.s3 import S3Access
from connectors.zookeeper.kazoo_session import ZooKeeperClient
from tables.history.record import HOUR_MS, CheckpointPolicy
from tables.rules.routes.routes import Routes

_STORE_ANSWERS = 60.0
"""Seconds without an answer before the central store counts as lost; its searches may take long."""


def kafka_client(settings: Settings) -> KafkaClient:
    """Return the connection settings of Kafka."""
    kafka = settings.kafka
    return KafkaClient(
        bootstrap_servers=kafka.bootstrap_servers,
        security_protocol=kafka.security_protocol,
        ssl_cafile=kafka.ssl_cafile,
        sasl_mechanism=kafka.sasl_mechanism,
        sasl_username=kafka.sasl_username,
        sasl_password=kafka.secret(),
    )


def topic_plans(settings: Settings) -> TopicPlans:
    """Return the required configuration of this installation's topics."""
    topics = settings.topics
    return TopicPlans(
        prefix=settings.prefix,
        replication_factor=topics.replication_factor,
        cleanup_policy=topics.cleanup_policy,
        retention_ms=topics.retention_ms,
        max_message_bytes=topics.max_message_bytes,
        journal_partitions=topics.journal_partitions,
        keeps_existing=topics.existing == "keep",
        offline_seconds=topics.offline_seconds,
    )


def routes_of(settings: Settings, name: str) -> Routes:
    """Return the routes of one destination's tables."""
    destination = settings.destinations[name]
    chosen = destination.filter
    return Routes(
        prefix=settings.prefix,
        include=chosen.include,
        black=chosen.black,
        partitions=settings.topics.partitions,
        destination=name,
        truncates=settings.destinations[name].truncates,
        mapping=settings.mapping.mapping,
        merged=settings.merge_of(name) is not None,
        keys=settings.mapping.keys,
        row_topics=tuple(one.rule() for one in destination.row_topics),
        format=destination.format,
        connect=destination.connect.stated(),
    )


def merge_plans(settings: Settings, options: dict[str, Any], topics: TopicPlans) -> list[MergePlan]:
    """Return the plans of all merges."""
    return [
        MergePlan(
            name=name,
            destinations=merge.destinations,
            all_destinations=frozenset(settings.destinations),
            prefix=settings.prefix,
            wait=merge.wait_seconds,
            passes=merge.stalled == "pass",
            stalled_after=merge.stalled_after_seconds,
            accepts_gone="records_gone" in merge.accept,
            topics=topics,
            kafka_options=options,
            compression=settings.publish.compression,
            max_bytes=settings.publish.max_bytes,
            max_batch_bytes=min(MAX_BATCH_BYTES, topics.max_message_bytes),
        )
        for name, merge in settings.merge.items()
    ]


def is_mapped(settings: Settings) -> bool:
    """Return whether there is a mapping, so that there may be logical tables."""
    return settings.mapping.store == "zookeeper" or settings.mapping.mapping is not None


def logical_schemas_plan(
    settings: Settings, options: dict[str, Any], topics: TopicPlans, routes: CurrentRoutes
) -> LogicalSchemasPlan:
    """Return the plan of the publication of logical schemas."""
    return LogicalSchemasPlan(
        worker=settings.worker.id,
        topics=topics,
        kafka_options=options,
        compression=settings.publish.compression,
        routes=routes,
    )


def destination_plan(
    settings: Settings, name: str, options: dict[str, Any], topics: TopicPlans
) -> Plan:
    """Return the plan of one destination's run."""
    destination = settings.destinations[name]
    return Plan(
        name=name,
        worker=settings.worker.id,
        reached_at=settings.worker.advertised_address,
        address=source_address(settings, name),
        start=start_position(destination.listed[0].start or destination.start),
        sources=tuple(
            Source(
                address=_address(settings, destination, one),
                start=start_position(one.start or destination.start),
            )
            for one in destination.listed
        ),
        failover=_failover(destination),
        accepted=frozenset(destination.accept),
        snapshot=_snapshot(destination.snapshot, settings.data_dir),
        all_destinations=frozenset(settings.destinations),
        merges=frozenset(f"{UNIT}{one}" for one in settings.merge),
        rules=PublishingRules(
            destination=name,
            routes=routes_of(settings, name),
            trusted=destination.filter.statements,
            markers=settings.provide_transaction_metadata is True,
            part_markers=settings.provide_transaction_metadata is not False,
            statements=settings.include_query,
            compression=settings.publish.compression,
            max_bytes=settings.publish.max_bytes,
            max_batch_bytes=min(MAX_BATCH_BYTES, topics.max_message_bytes),
            compacted="compact" in topics.cleanup_policy,
            largest=topics.max_message_bytes,
            oversize=destination.oversize,
            claims=destination.claims,
            claims_access=S3Access(**destination.claim_check_s3.model_dump()),
            connect=destination.connect.form(),
            registry=settings.mapping.schema_registry.access(),
            undecodable_limit=destination.poison_limit
            if destination.poison == "dead_letter"
            else 0,
            ddl_include=settings.ddl.include,
            ddl_exclude=settings.ddl.exclude,
            never_shadows=settings.ddl.never_online,
            also_shadows=settings.ddl.also_online,
            signals=destination.snapshot.signals,
        ),
        history=history_policy(settings),
        decoders=destination.decoders,
        topics=replace(
            topics,
            takes_all=destination.oversize != "stop",
            progress=settings.merge_of(name) is not None,
        ),
        kafka_options=options,
        compression=settings.publish.compression,
        interval=settings.publish.interval_ms / 1000,
    )


def _snapshot(settings: SnapshotSettings, data_dir: Path) -> SnapshotPlan:
    return SnapshotPlan(
        is_initial=settings.is_initial,
        is_only=settings.mode == "initial_only",
        replaces_gaps=settings.mode == "when_needed",
        recovers=settings.recovers,
        includes_new=settings.new_tables and not settings.recovers,
        signals=settings.signals,
        limits=LoadLimits(
            rows_per_second=settings.rows_per_second,
            threads_running=settings.max_threads_running,
            probe_ms=settings.max_probe_ms,
            replica_lag_seconds=settings.max_replica_lag_seconds,
        ),
        spools=Spools(folder=settings.spool_dir or data_dir, most_bytes=settings.max_spool_bytes),
    )


def history_policy(settings: Settings) -> CheckpointPolicy | None:
    """Return the checkpoint policy of the schema history; None where no history is kept."""
    history = settings.schema_history
    if history.store == "off":
        return None
    return CheckpointPolicy(
        interval_ms=int(history.snapshot_interval_hours * HOUR_MS),
        statements=history.snapshot_statements,
        expire_ms=int(history.snapshot_expire_hours * HOUR_MS),
    )


def central_store(settings: Settings) -> MetaStore | None:
    """Return the MySQL that gets a copy of all schema histories, if the settings name one."""
    history = settings.schema_history
    if history.store != "mysql":
        return None
    mysql = history.mysql
    address = SourceAddress(
        host=mysql.host,
        port=mysql.port,
        user=mysql.user,
        password=mysql.secret(),
        server_id=0,
        replica_uuid="",
        heartbeat=_STORE_ANSWERS / 3,
        tls=Tls(mysql.tls),
        tls_ca=str(mysql.tls_ca) if mysql.tls_ca else None,
    )
    return MetaStore(address, mysql.database)


def coordination_plan(settings: Settings) -> tuple[ZooKeeperClient, str, float] | None:
    """Return the ZooKeeper client, the root path and the balance delay in seconds; None without ZooKeeper."""
    zookeeper = settings.zookeeper
    if not zookeeper.hosts:
        return None
    client = ZooKeeperClient(
        hosts=zookeeper.hosts,
        timeout=zookeeper.session_timeout_seconds,
        username=zookeeper.username or None,
        password=zookeeper.secret(),
    )
    return client, zookeeper.root, zookeeper.balance_delay_seconds


def source_address(settings: Settings, name: str) -> SourceAddress:
    """Return the address of a destination's first source."""
    destination = settings.destinations[name]
    return _address(settings, destination, destination.listed[0])


def _failover(destination: DestinationSettings) -> Failover:
    failover = destination.failover
    has_others = len(destination.listed) > 1
    return Failover(
        automatic=failover.enabled,
        heartbeat=failover.heartbeat.sql if failover.heartbeat.enabled else None,
        interval=failover.heartbeat.interval_seconds,
        retries=failover.heartbeat.retries,
        back=failover.back,
        back_after=failover.back_after_seconds,
        accept_errant=failover.errant == "accept",
        fingerprints=failover.fingerprints == "on"
        or (failover.fingerprints == "auto" and has_others),
        fallback_ms=int(failover.fallback_seconds * 1000),
        report_lost=failover.lost_in_replication == "report",
        accept_filters="replication_filters" in destination.accept,
        accept_unproven="unproven" in destination.accept,
    )


def _address(
    settings: Settings, destination: DestinationSettings, source: SourceSettings
) -> SourceAddress:
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
        statements=settings.include_query,
        tls=Tls(source.tls),
        tls_ca=str(source.tls_ca) if source.tls_ca else None,
    )
