"""One worker's records of one story, read once; each test plants its fault in a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.audit.audit import Scope, audit
from app.audit.topics.topics import KafkaTopics
from app.audit.truth.mysql_replication import ReplicationBinlog
from app.audit.truth.mysqlbinlog import BinlogFiles
from app.audit.truth.printed_events import Event, FileBegins
from app.audit.truth.witness import Witness, WitnessName
from app.audit.verdict import Verdict
from app.operator.audit import run_beside_kafka
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.recorded_topics import RecordedTopics
from tests.harness.worker import Worker, running, settings
from tests.integration.auditing.story import COMPRESSED, FIRST, SECOND, TABLES, play
from tests.integration.worker.source import address_of, end_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The published records, and the parameters of their audit."""

    mysql: Mysql
    scope: Scope
    settings: dict[str, Any]
    folder: Path
    plain: str
    """The first of the binlog files that have no compressed transaction."""

    def recorded(self) -> RecordedTopics:
        """A copy of the topics, to plant a fault in."""
        topics = self.scope.published
        assert isinstance(topics, RecordedTopics)
        held = {part: list(records) for part, records in topics.records.items()}
        return RecordedTopics(dict(topics.counts), held, dict(topics.firsts))

    def verdict(self, topics: RecordedTopics, **more: object) -> Verdict:
        """The audit of such a copy."""
        return audit(replace(self.scope, published=topics, **more))  # type: ignore[arg-type]


def caught_up(worker: Worker, mysql: Mysql) -> None:
    """Wait until the cursor holds all that the server has."""
    import pymysql

    connection = pymysql.connect(host=mysql.host, port=mysql.port, user="root")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        (wanted,) = cursor.fetchone()

        def holds(status: dict[str, Any]) -> bool:
            held = (status.get("cursor") or {}).get("gtid_set")
            if status["state"] != "RUNNING" or not held:
                return False
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (wanted, held))
            return bool(cursor.fetchone()[0])

        last = None
        while True:
            try:
                worker.wait(holds)
            except AssertionError:
                # A busy machine is slow, and is not at fault as long as it gets on.
                before, last = last, worker.destination().get("cursor")
                if last is None or last == before:
                    raise
            else:
                return


@dataclass(frozen=True, slots=True)
class Remembered:
    """A witness whose reading of some files is kept, so that many audits cost one."""

    witness: Witness
    first: str
    held: tuple[Event, ...]

    @classmethod
    def of(cls, witness: Witness, first: str) -> Remembered:
        """Read from this file on."""
        return cls(witness, first, tuple(witness.events(first)))

    @property
    def name(self) -> WitnessName:
        return self.witness.name

    @property
    def server_uuid(self) -> str:
        return self.witness.server_uuid

    def files(self) -> Sequence[str]:
        return self.witness.files()

    def events(self, first: str) -> Generator[Event]:
        if first < self.first:
            yield from self.witness.events(first)
            return
        yield from self.held[self.held.index(FileBegins(first)) :]


@pytest.fixture(scope="package")
def second(case: Case) -> Remembered:
    """mysql-replication's reading of the same binlog, from the first file that it reads whole."""
    return Remembered.of(ReplicationBinlog.of(address_of(case.mysql)), case.plain)


@pytest.fixture(scope="package")
def case(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """The story, published in two runs of a worker, so that there are two epochs."""
    folder = tmp_path_factory.mktemp("audited")
    mysql = stack.second_mysql(f"audited-{folder.name}", {"server_id": 11})
    mysql.start()
    wanted = settings(stack, mysql, folder)
    wanted["publish"] = {"max_bytes": 65536, "interval_ms": 20}
    wanted["provide_transaction_metadata"] = True
    try:
        play(mysql, [*TABLES, *COMPRESSED])
        plain = end_of(mysql).file
        play(mysql, FIRST)
        with running(wanted, folder) as worker:
            caught_up(worker, mysql)
            worker.stop()
        play(mysql, SECOND)
        with running(wanted, folder) as worker:
            caught_up(worker, mysql)
            worker.stop()
        prefix = wanted["prefix"]
        assert mysql.mysqlbinlog is not None
        files = sorted(mysql.data.glob("binlog.0*"))
        scope = Scope(
            destination="shop",
            routes=Routes(prefix=prefix, include=r"shop\..*"),
            binlog=BinlogFiles(
                paths=tuple(files), server_uuid=_uuid(mysql), program=mysql.mysqlbinlog
            ),
            published=recorded(stack, prefix),
        )
        yield Case(mysql=mysql, scope=scope, settings=wanted, folder=folder, plain=plain)
    finally:
        mysql.kill()


def recorded(stack: Stack, prefix: str) -> RecordedTopics:
    """All topics of an installation, read once."""

    def read(kafka: KafkaTopics) -> RecordedTopics:
        names = [name for name in kafka.topics() if name.startswith(f"{prefix}.")]
        return RecordedTopics.of(kafka, names)

    return asyncio.run(run_beside_kafka({"bootstrap_servers": stack.kafka}, read))


def _uuid(mysql: Mysql) -> str:
    return (mysql.data / "auto.cnf").read_text().partition("server-uuid=")[2].strip()
