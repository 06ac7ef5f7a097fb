"""One audit of a destination: proof that the source's binlog, the topics, and the warehouse are
equal.

Invariant: read-only, beside a running worker. The warehouse is read first, so that no table is
newer than what is read of the topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from app.audit.audit import InForce, Scope, audit
from app.audit.errors import ProgramMissing
from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.topics import KafkaTopics, journal
from app.audit.truth.mysql_replication import ReplicationBinlog
from app.audit.truth.mysqlbinlog import BinlogFiles, ServerBinlog, program
from app.audit.truth.window import Bound
from app.audit.truth.witness import Witness
from app.audit.verdict import Verdict
from app.audit.warehouse.dump import given_dump, requested_dump
from app.operator.operations.destination_check import check_destination
from app.operator.operations.given_position import GivenPosition
from app.operator.operations.mapping.in_force import routes_in_force
from app.settings.model import Settings
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.plan import Plan
from app.worker.pipeline.encode.oversize import claim_store
from app.worker.wiring import destination_plan, kafka_client, topic_plans
from connectors.errors import SourceLost, SourceRefused, UsageError
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, Earliest, Start
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.server.facts import SourceAddress
from tables.rules.routes.routes import Routes
from tables.state.mapping_in_force import MappingInForce

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBinlogs:
    """Binlog files in place of the server's, the oldest first."""

    paths: tuple[Path, ...]
    server_uuid: str
    """The server that wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMysqlbinlog:
    """MySQL's program as the witness."""

    command: str | None = None
    """None: the program on the PATH."""
    binlogs: GivenBinlogs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMysqlReplication:
    """The package mysql-replication as the witness; it reads servers only."""


WitnessChoice = ByMysqlbinlog | ByMysqlReplication | None
"""The reader of the source's binlog; None: mysqlbinlog if it is found, else mysql-replication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """The parameters of an audit."""

    destination: str
    begin: GivenPosition | None = None
    until: GivenPosition | None = None
    witness: WitnessChoice = None
    sink: Path | None = None
    """Settings of the sink whose warehouse is audited too."""
    dump: Path | None = None
    """The same, as a dump that the sink wrote."""


async def audit_destination(settings: Settings, request: AuditRequest) -> Verdict:
    """Make the audit; raise UsageError if the settings have no such destination."""
    check_destination(settings, request.destination)
    async with AsyncExitStack() as stack:
        dump = await _warehouse(request, stack)

        def work(topics: KafkaTopics) -> Verdict:
            return audit(_scope(request, settings, topics, dump))

        return await run_beside_kafka(kafka_client(settings).options(), work)


async def run_beside_kafka(options: Mapping[str, Any], work: Callable[[KafkaTopics], T]) -> T:
    """Run work that reads a cluster's topics and may block in a thread of its own; return its result."""
    return await in_its_own_thread(partial(work, KafkaTopics(options, asyncio.get_running_loop())))


async def _warehouse(request: AuditRequest, stack: AsyncExitStack) -> Path | None:
    """Return a file of the warehouse's contents, which exists as long as the stack is open."""
    if request.sink is not None:
        return await stack.enter_async_context(requested_dump(request.sink))
    return None if request.dump is None else stack.enter_context(given_dump(request.dump))


def _scope(
    request: AuditRequest, settings: Settings, topics: KafkaTopics, dump: Path | None
) -> Scope:
    plan = destination_plan(
        settings, request.destination, dict(topics.options), topic_plans(settings)
    )
    rules = plan.rules
    return Scope(
        destination=plan.name,
        routes=rules.routes,
        binlog=_binlog(request.witness, plan, topics),
        published=topics,
        in_force=_in_force(settings, rules.routes, topics),
        ddl_include=rules.ddl_include,
        ddl_exclude=rules.ddl_exclude,
        shadows=rules.shadow_rules(),
        begin=_bound(request.begin) or _start(plan.start),
        until=_bound(request.until),
        from_start=isinstance(plan.start, Earliest),
        markers=rules.markers,
        compacted="compact" in settings.topics.cleanup_policy,
        claims=claim_store(rules) if settings.destinations[plan.name].claim_check_path else None,
        warehouse=dump,
    )


def _in_force(settings: Settings, routes: Routes, topics: KafkaTopics) -> InForce | None:
    """Return what makes routes by the versions in the journal; None if the mapping is the settings'."""
    if settings.mapping.store != "zookeeper":
        return None

    def read(found: Iterable[MappingInForce]) -> RoutesInForce:
        reading = routes_in_force(settings, routes, found)
        return asyncio.run_coroutine_threadsafe(reading, topics.loop).result()

    return read


def _binlog(choice: WitnessChoice, plan: Plan, topics: KafkaTopics) -> Witness:
    command = mysqlbinlog_command(choice)
    if command is None:
        return _server_witness(plan, topics, ReplicationBinlog.of)
    given_binlogs = choice.binlogs if isinstance(choice, ByMysqlbinlog) else None
    if given_binlogs is None:
        return _server_witness(plan, topics, partial(ServerBinlog.of, program=command))
    missing = [str(path) for path in given_binlogs.paths if not path.is_file()]
    if missing:
        raise UsageError(f"{missing[0]} is not a file")
    return BinlogFiles(
        paths=given_binlogs.paths, server_uuid=given_binlogs.server_uuid, program=command
    )


def mysqlbinlog_command(choice: WitnessChoice) -> tuple[str, ...] | None:
    """Return the command of mysqlbinlog; None if mysql-replication is the witness."""
    match choice:
        case ByMysqlReplication():
            return None
        case ByMysqlbinlog():
            return program(choice.command)
    try:
        return program(None)
    except ProgramMissing:
        return None


def _server_witness(
    plan: Plan, topics: KafkaTopics, witness_of: Callable[[SourceAddress], Witness]
) -> Witness:
    """Return the witness of the source read last, or of another one that answers if that is gone."""
    addresses = [source.address for source in plan.sources] or [plan.address]
    if len(addresses) == 1:
        return witness_of(addresses[0])
    prefix, partitions = plan.rules.routes.prefix, plan.topics.journal_partitions
    records = journal(topics, prefix, plan.name, partitions=partitions)
    answered, silent = [], []
    for address in addresses:
        try:
            found = witness_of(address)
        except (SourceLost, SourceRefused) as error:
            silent.append(error)
            continue
        if records.cursors and found.server_uuid == records.cursors[-1].server_uuid:
            return found
        answered.append(found)
    if not answered:
        raise silent[0]
    return answered[0]


def _bound(position: GivenPosition | None) -> Bound | None:
    if position is None:
        return None
    if isinstance(position.value, MariadbGtidList):
        raise UsageError(
            f"{position.value} is a position of MariaDB, which the audit does not read"
        )
    return position.value


def _start(start: Start) -> Bound | None:
    """Return the destination's start by the settings; None if they do not give a position."""
    if isinstance(start, AtCoordinates):
        return start.coordinates
    if isinstance(start, AfterGtids) and not isinstance(start.gtid_set, MariadbGtidList):
        return start.gtid_set
    return None
