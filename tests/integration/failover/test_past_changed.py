"""A source whose past is not what was published any more: refused by name, or read on without a gap."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from app.audit.audit import Scope, audit
from app.audit.errors import TruthUnreadable
from app.audit.truth.mysql_replication import ReplicationBinlog
from app.audit.truth.mysqlbinlog import ServerBinlog
from app.audit.verdict import FaultKind
from connectors.mysql.gtid import GtidSet
from devstack import Stack
from devstack.mysql import Mysql
from tables.rules.routes.routes import Routes
from tests.harness.recorded_topics import RecordedTopics
from tests.harness.servers import own_mysql
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.harness.worker import running, settings
from tests.integration.auditing.conftest import recorded
from tests.integration.failover.servers import insert, notes
from tests.integration.failover.setting import has_rows, shows
from tests.integration.worker.source import address_of

_TABLE = (
    "CREATE DATABASE IF NOT EXISTS shop",
    "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT, x int, note varchar(40))",
)
_RESET = "RESET BINARY LOGS AND GTIDS"


@pytest.fixture
def server(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Mysql]:
    """A server of the test's own with an empty table ``shop.t``."""
    options = {"server_id": 31, **getattr(request, "param", {})}
    with own_mysql(stack, *_TABLE, options=options) as made:
        yield made


_WITHOUT = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}


@pytest.mark.parametrize("server", [{}, _WITHOUT], indirect=True, ids=["GTIDs", "without GTIDs"])
def test_a_binlog_that_was_reset_and_covers_the_cursor_again_is_refused(
    stack: Stack, server: Mysql, tmp_path: Path
) -> None:
    given = settings(stack, server, tmp_path, decoders=0, heartbeat_seconds=1)
    with running(given, tmp_path) as worker:
        insert(server, *[f"before {n}" for n in range(100)])
        has_rows(worker, 100)
        assert worker.stop() == 0
    ask(server, _RESET)
    insert(server, *[f"after {n}" for n in range(400)])
    with running(given, tmp_path) as worker:
        shows(worker, "FAILED", "SourceReset")
    assert len(notes(stack, given["prefix"])) == 100


def test_data_put_back_under_a_running_worker_is_refused(
    stack: Stack, server: Mysql, tmp_path: Path
) -> None:
    given = settings(stack, server, tmp_path, decoders=0, heartbeat_seconds=1)
    with running(given, tmp_path) as worker:
        insert(server, "kept")
        has_rows(worker, 1)
        server.stop()
        backup = tmp_path / "backup"
        shutil.copytree(server.data, backup)
        server.start()
        insert(server, *[f"phantom {n}" for n in range(50)])
        has_rows(worker, 51)
        # It is frozen while the server goes back and writes on, so that it sees the new end at once.
        worker.process.send_signal(19)
        server.kill()
        shutil.rmtree(server.data)
        shutil.copytree(backup, server.data)
        server.start()
        insert(server, *[f"new {n}" for n in range(60)])
        worker.process.send_signal(18)
        shows(worker, "FAILED", "Source")
        assert worker.destination()["rows"] == 51


@pytest.mark.remedy("AnonymousTransaction", "TruthUnreadable")
def test_transactions_without_gtid_stop_it_by_name_and_the_way_out_publishes_them(
    stack: Stack, server: Mysql, tmp_path: Path
) -> None:
    given = settings(stack, server, tmp_path, decoders=0, heartbeat_seconds=1)
    with running(given, tmp_path) as worker:
        insert(server, "before")
        has_rows(worker, 1)
        assert worker.stop() == 0
    insert(server, "with")
    known = GtidSet.parse(ask(server, "SELECT @@GLOBAL.gtid_executed")[0][0])
    _anonymous(server, "down")
    with running(given, tmp_path) as worker:
        shows(worker, "FAILED", "AnonymousTransaction", "accept", "ON_PERMISSIVE")
        has_rows(worker, 1)
    ask(server, "SET GLOBAL gtid_mode = ON_PERMISSIVE")
    given["destinations"]["shop"]["accept"] = ["anonymous_transactions"]
    with running(given, tmp_path) as worker:
        has_rows(worker, 50)
        ask(server, "SET GLOBAL gtid_mode = ON")
        assert worker.stop() == 0
    del given["destinations"]["shop"]["accept"]
    with running(given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        # The same while it runs; its stream ends with the server's thread.
        _anonymous(server, "up")
        for (thread,) in ask(
            server, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'"
        ):
            ask(server, f"KILL {thread}")
        insert(server, "last")
        has_rows(worker, 51)
        until(lambda: worker.destination()["state"] == "RUNNING")
    down, up = ([f"{name} {n}" for n in range(50)] for name in ("down", "up"))
    assert notes(stack, given["prefix"]) == ["before", "with", *down, *up, "last"]
    _audited(stack, server, given["prefix"], known)


def _audited(stack: Stack, server: Mysql, prefix: str, known: GtidSet) -> None:
    """The audit reads what has no GTIDs too, finds it all, and misses one that is taken away."""
    assert server.mysqlbinlog is not None
    scope = Scope(
        destination="shop",
        routes=Routes(prefix=prefix, include=r"shop\..*"),
        binlog=ServerBinlog.of(address_of(server), server.mysqlbinlog),
        published=recorded(stack, prefix),
        markers=False,
    )
    for witness in (scope.binlog, ReplicationBinlog.of(address_of(server))):
        with pytest.raises(TruthUnreadable, match=r"(?i)anonymous.*gtid_mode = ON_PERMISSIVE"):
            audit(replace(scope, binlog=witness))
    ask(server, "SET GLOBAL gtid_mode = ON_PERMISSIVE")
    verdict = audit(scope)
    assert (verdict.changes, verdict.faults) == (103, {})
    # What a set of GTIDs begins after, where none of the next transactions has one.
    verdict = audit(replace(scope, begin=known))
    assert (verdict.changes, verdict.faults) == (101, {})
    # What has no GTID and is before the last transaction of the set was not asked for.
    executed = GtidSet.parse(ask(server, "SELECT @@GLOBAL.gtid_executed")[0][0])
    emptied = replace(scope, published=_without(scope, lambda note: "last" not in note))
    verdict = audit(replace(emptied, begin=executed))
    assert (verdict.changes, verdict.counts[FaultKind.LOST]) == (0, 0)
    lacking = replace(scope, published=_without(scope, lambda note: note in ("down 7", "up 49")))
    verdict = audit(replace(lacking, begin=known))
    assert (verdict.changes, verdict.faults) == (101, {"lost": 2, "seq_gaps": 2})


def _without(scope: Scope, unwanted: Callable[[str], bool]) -> RecordedTopics:
    """A copy of the topics without the rows of these notes."""
    topics = scope.published
    assert isinstance(topics, RecordedTopics)
    rows = f"{scope.prefix}.shop.t"
    held = {
        part: [
            record
            for record in records
            if part[0] != rows or not unwanted(orjson.loads(record.value)["after"]["note"])
        ]
        for part, records in topics.records.items()
    }
    return replace(topics, records=held)


def _anonymous(server: Mysql, name: str) -> None:
    """Fifty rows that have no GTIDs, between others that have."""
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        ask(server, f"SET GLOBAL gtid_mode = {mode}")
    insert(server, *[f"{name} {n}" for n in range(50)])
    for mode in ("ON_PERMISSIVE", "ON"):
        ask(server, f"SET GLOBAL gtid_mode = {mode}")


@pytest.mark.parametrize(
    "server",
    [
        {"binlog_ignore_db": "shop"},
        pytest.param(
            {"binlog_do_db": "other"},
            marks=pytest.mark.long("unit/…/test_database_filters has both"),
        ),
    ],
    indirect=True,
    ids=str,
)
def test_a_captured_database_that_the_binlog_leaves_out_is_refused(
    stack: Stack, server: Mysql, tmp_path: Path
) -> None:
    given = settings(stack, server, tmp_path, decoders=0)
    with running(given, tmp_path) as worker:
        shows(worker, "FAILED", "PreflightError", "shop", "binlog_")
