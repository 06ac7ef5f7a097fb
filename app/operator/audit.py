"""`audit`: proof that nothing was lost or repeated between the source's binlog, the topics and the warehouse.

Invariant: the audit does not trust the worker's own decoding. It only reads, and may run beside a running
worker. The warehouse is read first, so that no table is newer than the topics as they are read. Exit 0:
everything is right; 1: something is wrong; 3: nothing is wrong in what was judged, but not everything could be
judged, mostly because the witness could not read all rows.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
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
from app.audit.truth.witness import Witness, WitnessName
from app.audit.verdict import Verdict
from app.audit.warehouse.dump import given_dump, requested_dump
from app.operator import arguments
from app.operator.arguments import GivenPosition
from app.operator.journal_access import check_destination
from app.operator.mapping import routes_in_force
from app.operator.terminal import print_answer, run_operation
from app.settings.model import Settings, load
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.plan import Plan
from app.worker.pipeline.oversize_records import claim_store
from app.worker.wiring import destination_plan, kafka_client, topic_plans
from connectors.errors import SourceLost, SourceRefused, UsageError
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, Earliest, Start
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.server.connection import SourceAddress
from tables.rules.routes.routes import Routes
from tables.state.mapping_in_force import MappingsInForce

T = TypeVar("T")


async def audit_destination(
    settings: Settings,
    destination: str,
    *,
    begin: GivenPosition | None = None,
    until: GivenPosition | None = None,
    witness: WitnessName | None = None,
    mysqlbinlog: str | None = None,
    binlogs: Sequence[Path] = (),
    server: str | None = None,
    sink: Path | None = None,
    dump: Path | None = None,
) -> Verdict:
    """Run the audit; raise UsageError if the arguments contradict each other, or for an unknown destination.

    ``witness`` None means mysqlbinlog if it is found, else mysql-replication. ``mysqlbinlog`` is its command;
    None: the program on the PATH. ``binlogs`` are files to read in place of the server's, the oldest first;
    ``server`` is the server_uuid of the server that wrote them. ``sink`` is the settings file of the sink whose
    warehouse is audited too; ``dump`` is a dump that this sink wrote, in place of ``sink``.
    """
    _check_witness(witness, mysqlbinlog, binlogs, server)
    check_destination(settings, destination)
    async with AsyncExitStack() as stack:
        warehouse = None
        if sink is not None:
            warehouse = await stack.enter_async_context(requested_dump(sink))
        elif dump is not None:
            warehouse = stack.enter_context(given_dump(dump))

        def work(topics: KafkaTopics) -> Verdict:
            options = dict(topics.options)
            plan = destination_plan(settings, destination, options, topic_plans(settings))
            command = mysqlbinlog_command(witness, mysqlbinlog, reads_files=bool(binlogs))
            if binlogs and server is not None and command is not None:
                missing = [str(path) for path in binlogs if not path.is_file()]
                if missing:
                    raise UsageError(f"{missing[0]} is not a file")
                binlog: Witness = BinlogFiles(
                    paths=tuple(binlogs), server_uuid=server, program=command
                )
            else:
                binlog = _server_witness(plan, topics, command)
            scope = _scope(settings, plan, topics, binlog, begin=begin, until=until)
            return audit(replace(scope, warehouse=warehouse))

        return await run_beside_kafka(kafka_client(settings).options(), work)


def _check_witness(
    witness: WitnessName | None,
    mysqlbinlog: str | None,
    binlogs: Sequence[Path],
    server: str | None,
) -> None:
    """Raise UsageError if these arguments contradict each other."""
    if witness is WitnessName.MYSQL_REPLICATION and (mysqlbinlog or binlogs):
        raise UsageError(
            "--witness mysql-replication reads the server itself; "
            "--mysqlbinlog and --binlogs cannot be combined with it"
        )
    if binlogs and server is None:
        raise UsageError("--binlogs needs --server UUID, the server that wrote the files")


async def run_beside_kafka(options: Mapping[str, Any], work: Callable[[KafkaTopics], T]) -> T:
    """Run, in a thread of its own, work that reads a cluster's topics and may block; return its result."""
    return await in_its_own_thread(partial(work, KafkaTopics(options, asyncio.get_running_loop())))


def _scope(
    settings: Settings,
    plan: Plan,
    topics: KafkaTopics,
    binlog: Witness,
    *,
    begin: GivenPosition | None,
    until: GivenPosition | None,
) -> Scope:
    rules = plan.rules
    return Scope(
        destination=plan.name,
        routes=rules.routes,
        binlog=binlog,
        published=topics,
        in_force=_in_force(settings, rules.routes, topics),
        ddl_include=rules.ddl_include,
        ddl_exclude=rules.ddl_exclude,
        shadows=rules.shadow_rules(),
        begin=_bound(begin) or _start(plan.start),
        until=_bound(until),
        from_start=isinstance(plan.start, Earliest),
        markers=rules.markers,
        compacted="compact" in settings.topics.cleanup_policy,
        claims=claim_store(rules) if settings.destinations[plan.name].claim_check_path else None,
    )


def _in_force(settings: Settings, routes: Routes, topics: KafkaTopics) -> InForce | None:
    """Return the function from the journal's versions to routes; None if the settings have the mapping."""
    if settings.mapping.store != "zookeeper":
        return None

    def read(found: MappingsInForce) -> RoutesInForce:
        reading = routes_in_force(settings, routes, found)
        return asyncio.run_coroutine_threadsafe(reading, topics.loop).result()

    return read


def mysqlbinlog_command(
    witness: WitnessName | None, mysqlbinlog: str | None = None, *, reads_files: bool = False
) -> tuple[str, ...] | None:
    """Return the command of mysqlbinlog; None if mysql-replication is the witness."""
    if witness is WitnessName.MYSQL_REPLICATION:
        return None
    if witness is not None or mysqlbinlog or reads_files:
        return program(mysqlbinlog)
    try:
        return program(None)
    except ProgramMissing:
        return None


def _server_witness(plan: Plan, topics: KafkaTopics, command: tuple[str, ...] | None) -> Witness:
    """Return the witness of the source that was read last, or else of another source that answers."""
    addresses = [source.address for source in plan.sources] or [plan.address]
    if len(addresses) == 1:
        return _witness_of(addresses[0], command)
    prefix, partitions = plan.rules.routes.prefix, plan.topics.journal_partitions
    records = journal(topics, prefix, plan.name, partitions=partitions)
    answered, silent = [], []
    for address in addresses:
        try:
            found = _witness_of(address, command)
        except (SourceLost, SourceRefused) as error:
            silent.append(error)
            continue
        if records.cursors and found.server_uuid == records.cursors[-1].server_uuid:
            return found
        answered.append(found)
    if not answered:
        raise silent[0]
    return answered[0]


def _witness_of(address: SourceAddress, command: tuple[str, ...] | None) -> Witness:
    if command is None:
        return ReplicationBinlog.of(address)
    return ServerBinlog.of(address, program=command)


def _bound(position: GivenPosition | None) -> Bound | None:
    if position is None:
        return None
    if isinstance(position.value, MariadbGtidList):
        raise UsageError(
            f"{position.value} is a position of MariaDB, which the audit does not read"
        )
    return position.value


def _start(start: Start) -> Bound | None:
    """Return the destination's start position in the settings; None if the settings do not give a position."""
    if isinstance(start, AtCoordinates):
        return start.coordinates
    if isinstance(start, AfterGtids) and not isinstance(start.gtid_set, MariadbGtidList):
        return start.gtid_set
    return None


INCOMPLETE = 3


def configure_audit(parser: argparse.ArgumentParser) -> None:
    """Add what to audit, and the witnesses."""
    arguments.add_destination(parser)
    arguments.add_position(
        parser, "--from", "only changes after this GTID set, or at and after this position"
    )
    arguments.add_position(parser, "--to", "only changes in this GTID set, or up to this position")
    parser.add_argument(
        "--witness",
        choices=[name.value for name in WitnessName],
        help="reader of the source's binlog; default: mysqlbinlog if installed, else mysql-replication",
    )
    parser.add_argument(
        "--mysqlbinlog",
        metavar="COMMAND",
        help="command of MySQL's mysqlbinlog; default: the one on the PATH",
    )
    parser.add_argument(
        "--binlogs",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="binlog files, oldest first, instead of the server's; --server names the server that wrote them",
    )
    arguments.add_server(parser)
    warehouse = parser.add_mutually_exclusive_group()
    warehouse.add_argument(
        "--sink",
        metavar="FILE",
        type=Path,
        help="the sink's settings file; audits its warehouse too",
    )
    warehouse.add_argument(
        "--warehouse",
        metavar="FILE",
        type=Path,
        help="the same, from a file that `python -m spark_sink dump FILE` wrote where the sink runs",
    )
    arguments.add_format(parser)


def run_audit(options: argparse.Namespace) -> int:
    """Run the audit and print the result; return the exit code."""
    verdict = run_operation(
        audit_destination(
            load(),
            options.destination,
            begin=getattr(options, "from"),
            until=options.to,
            witness=None if options.witness is None else WitnessName(options.witness),
            mysqlbinlog=options.mysqlbinlog,
            binlogs=options.binlogs or (),
            server=options.server,
            sink=options.sink,
            dump=options.warehouse,
        )
    )
    print_answer(options.format, verdict.to_json(), verdict.lines())
    if not verdict.is_clean:
        return 1
    return 0 if verdict.is_complete else INCOMPLETE
