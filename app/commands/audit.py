"""`python -m app audit DEST`: prove that nothing was lost or repeated, without trusting our own reading.

The law: read-only, and beside a worker that goes on. Exit 0 says that all is right, 1 that something is not, 3
that nothing is wrong in what was judged, and the witness could not read all rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.auditing.audit import Scope, audit
from app.auditing.errors import ProgramMissing
from app.auditing.topics.topics import KafkaTopics, journal
from app.auditing.truth.mysql_replication import ReplicationBinlog
from app.auditing.truth.mysqlbinlog import BinlogFiles, ServerBinlog, program
from app.auditing.truth.witness import Witness, WitnessName
from app.auditing.verdict import Verdict
from app.auditing.warehouse.dump import asked, given
from app.auditing.window import Bound
from app.commands import arguments
from app.commands.arguments import GivenPlace
from app.commands.output import answer
from app.destination.plan import Plan
from app.pipeline.encode.oversize import claim_store
from app.settings.model import Settings, load
from app.wiring import destination_plan, kafka_client, topic_plans
from connectors.errors import SourceLost, SourceRefused, UsageError
from connectors.mysql.lookup.start import AfterGtids, AtCoordinates, Earliest, Start
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.server.facts import SourceAddress

INCOMPLETE = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Take what to audit, and where the truth is."""
    arguments.add_destination(parser)
    arguments.add_place(
        parser, "--from", "only what is behind this set, or at this place and behind"
    )
    arguments.add_place(parser, "--to", "only what is in this set, or up to this place")
    parser.add_argument(
        "--witness",
        choices=[name.value for name in WitnessName],
        help="who reads the source's binlog; the default is mysqlbinlog if it is found, else mysql-replication",
    )
    parser.add_argument(
        "--mysqlbinlog",
        metavar="COMMAND",
        help="MySQL's program that prints binlogs; without it, the one on the PATH",
    )
    parser.add_argument(
        "--binlogs",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="binlog files, the oldest first, in place of the server's; --server says whose they are",
    )
    arguments.add_server(parser)
    warehouse = parser.add_mutually_exclusive_group()
    warehouse.add_argument(
        "--sink",
        metavar="FILE",
        type=Path,
        help="settings of the sink, whose warehouse is audited too",
    )
    warehouse.add_argument(
        "--warehouse",
        metavar="FILE",
        type=Path,
        help="the same, by what `python -m spark_sink dump FILE` has written where the sink runs",
    )
    arguments.add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Make the audit and tell of it; the exit code."""
    settings = load()
    if options.destination not in settings.destinations:
        known = ", ".join(sorted(settings.destinations))
        raise UsageError(f"no destination is called {options.destination!r}; there is: {known}")
    # Before all else, so that no table is ahead of what is read of the topics.
    with _warehouse(options) as dump:
        verdict = audit(replace(_scope(options, settings), warehouse=dump))
    answer(options.format, verdict.to_json(), verdict.lines())
    return _code(verdict)


def _warehouse(options: argparse.Namespace) -> AbstractContextManager[Path | None]:
    if options.sink is not None:
        return asked(options.sink)
    return nullcontext() if options.warehouse is None else given(options.warehouse)


def _code(verdict: Verdict) -> int:
    if not verdict.is_clean:
        return 1
    return 0 if verdict.is_complete else INCOMPLETE


def _scope(options: argparse.Namespace, settings: Settings) -> Scope:
    kafka = kafka_client(settings).options()
    plan = destination_plan(settings, options.destination, kafka, topic_plans(settings))
    rules = plan.rules
    return Scope(
        destination=plan.name,
        prefix=settings.prefix,
        binlog=_binlog(options, plan),
        published=KafkaTopics(kafka),
        include=rules.include,
        black=rules.black,
        ddl_include=rules.ddl_include,
        ddl_exclude=rules.ddl_exclude,
        shadows=rules.shadow_rules(),
        begin=_bound(getattr(options, "from")) or _start(plan.start),
        until=_bound(options.to),
        from_start=isinstance(plan.start, Earliest),
        borders=rules.borders,
        compacted="compact" in settings.topics.cleanup_policy,
        claims=claim_store(rules) if settings.destinations[plan.name].claim_check_path else None,
    )


def _binlog(options: argparse.Namespace, plan: Plan) -> Witness:
    command = program_of(options)
    if command is None:
        return _of_a_server(plan, ReplicationBinlog.of)
    if not options.binlogs:
        return _of_a_server(plan, partial(ServerBinlog.of, program=command))
    missing = [str(path) for path in options.binlogs if not path.is_file()]
    if missing:
        raise UsageError(f"{missing[0]} is not a file")
    if options.server is None:
        raise UsageError("--binlogs needs --server UUID: whose files they are")
    return BinlogFiles(paths=tuple(options.binlogs), server_uuid=options.server, program=command)


def program_of(options: argparse.Namespace) -> tuple[str, ...] | None:
    """How mysqlbinlog is run; None where mysql-replication is the witness."""
    is_free = options.witness is None and not (options.mysqlbinlog or options.binlogs)
    if options.witness == WitnessName.MYSQL_REPLICATION.value:
        if options.mysqlbinlog or options.binlogs:
            raise UsageError(
                "mysql-replication reads the server itself: give no --mysqlbinlog and no --binlogs with it"
            )
        return None
    try:
        return program(options.mysqlbinlog)
    except ProgramMissing:
        if is_free:
            return None
        raise


def _of_a_server(plan: Plan, witness_of: Callable[[SourceAddress], Witness]) -> Witness:
    """The binlog of the source that was read last; of another one that answers, where that is gone."""
    addresses = [source.address for source in plan.sources] or [plan.address]
    if len(addresses) == 1:
        return witness_of(addresses[0])
    prefix, partitions = plan.rules.prefix, plan.topics.journal_partitions
    told = journal(KafkaTopics(plan.kafka_options), prefix, plan.name, partitions=partitions)
    answered, silent = [], []
    for address in addresses:
        try:
            found = witness_of(address)
        except (SourceLost, SourceRefused) as error:
            silent.append(error)
            continue
        if told.cursors and found.server_uuid == told.cursors[-1].server_uuid:
            return found
        answered.append(found)
    if not answered:
        raise silent[0]
    return answered[0]


def _bound(given: GivenPlace | None) -> Bound | None:
    if given is None:
        return None
    if isinstance(given.value, MariadbGtidList):
        raise UsageError(f"{given.value} is a MariaDB's position, and no audit reads a MariaDB")
    return given.value


def _start(start: Start) -> Bound | None:
    """Where the settings say that the destination began; None where they do not say it by a place."""
    if isinstance(start, AtCoordinates):
        return start.coordinates
    if isinstance(start, AfterGtids) and not isinstance(start.gtid_set, MariadbGtidList):
        return start.gtid_set
    return None
