"""Remedies of errors at servers and in settings, each carried out as its message says, with one worker."""

from __future__ import annotations

import re
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml

from connectors.mysql.binlog.chunk_context import walk
from connectors.mysql.binlog.events import EventType
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.replica import BinlogStream
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import GTIDS_OFF, own_mysql, own_server
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings
from tests.integration.worker.source import address_of, end_of, facts_of

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def mysql(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Mysql]:
    """A server of the test's own with a table, of which an older binlog is purged."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY)",
        "INSERT INTO shop.t VALUES (1)",
        "FLUSH BINARY LOGS",
        options={"server_id": 43, **getattr(request, "param", {})},
    ) as server:
        run(server, f"PURGE BINARY LOGS TO '{end_of(server).file}'")
        yield server


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return lambda *words: run_command(tmp_path / "aqueduct.yaml", *words)


def shows(worker: Worker, error: str, *parts: str) -> str:
    """Wait until this error is shown; return its text."""
    status = worker.wait(lambda status: str(status["error"]).startswith(f"{error}: "))
    found = str(status["error"])
    assert all(part in found for part in parts), found
    return found


@pytest.mark.remedy("StateUnknown", "TooFewBrokers", "TimeInFuture", "BinlogFileMissing")
@pytest.mark.remedy("StartIncomplete", "ServerIdConflict", "SourceDiverged", "SourceUnproven")
def test_settings_are_corrected_as_errors_say_until_the_destination_runs(
    stack: Stack, mysql: Mysql, tmp_path: Path, command: Command
) -> None:
    wanted = settings(
        stack, mysql, tmp_path, start={"timestamp": "2100-01-01T00:00:00Z"}, accept=[], decoders=0
    )
    destination = wanted["destinations"]["shop"]
    file = tmp_path / "aqueduct.yaml"
    file.write_text(yaml.safe_dump(wanted))
    refused = command("cursor", "show", "shop")
    assert (refused.returncode, "StateUnknown" in refused.stderr) == (1, True), refused.stderr

    wanted["topics"]["replication_factor"] = 3
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda _: "TooFewBrokers: " in worker.log)
        assert "smaller topics.replication_factor" in worker.log
    wanted["topics"]["replication_factor"] = 1

    with running(wanted, tmp_path) as worker:

        def changes(**to: Any) -> None:
            destination.update(to)
            file.write_text(yaml.safe_dump(wanted))
            worker.process.send_signal(signal.SIGHUP)

        shows(worker, "TimeInFuture", "milliseconds since 1970")
        changes(start={"file": "binlgo.000002", "pos": 4})
        shows(worker, "BinlogFileMissing", "misspelt")
        changes(start="earliest")
        shows(worker, "StartIncomplete", "shop.t", "incomplete_start")
        # Another replica registers with the same id before this one does.
        end = SourceOffset(server_uuid=facts_of(mysql).server_uuid, coordinates=end_of(mysql))
        other = BinlogStream(address_of(mysql, server_id=destination["server_id"]), end)
        other.open()
        changes(accept=["incomplete_start"])
        shows(worker, "ServerIdConflict", "Give the destination a server_id")
        changes(server_id=6102)
        run(mysql, "INSERT INTO shop.t VALUES (2)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
        other.close()
        assert command("cursor", "show", "shop").returncode == 0

        right = destination["source"]
        changes(source=right | {"port": stack.mysql.port})
        shows(worker, "SourceDiverged", "Take another source")
        changes(source=right)
        run(mysql, "INSERT INTO shop.t VALUES (3)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] >= 2)
        assert worker.stop() == 0

    # Nothing is left that proves the past.
    run(mysql, "FLUSH BINARY LOGS", "RESET REPLICA")
    run(mysql, f"PURGE BINARY LOGS TO '{end_of(mysql).file}'")
    with running(wanted, tmp_path) as worker:
        shows(worker, "SourceUnproven", "add unproven to the destination's `accept`")
        changes(accept=["incomplete_start", "unproven"])
        run(mysql, "INSERT INTO shop.t VALUES (4)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
        changes(accept=["incomplete_start"])
        run(mysql, "INSERT INTO shop.t VALUES (5)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 2)
    assert published(stack, wanted) == [2, 3, 4, 5]


@pytest.mark.remedy("PreflightError", "NotQuarantined", "PositionUnknown", "DdlUnresolved")
@pytest.mark.remedy("SourceReset", "PositionPastEnd", "PositionGone")
@pytest.mark.parametrize("mysql", [GTIDS_OFF], indirect=True)
def test_servers_are_corrected_as_errors_say_until_the_destination_runs(
    stack: Stack, mysql: Mysql, tmp_path: Path, command: Command
) -> None:
    gtids = {"gtid_set": "00000000-0000-0000-0000-000000000001:1-4"}
    wanted = settings(stack, mysql, tmp_path, decoders=0, heartbeat_seconds=1, start=gtids)
    with running(wanted, tmp_path) as worker:
        shows(worker, "PositionGone", "Give start as file and pos")
    end = end_of(mysql)
    wanted["destinations"]["shop"]["start"] = {"file": end.file, "pos": end.pos}
    run(mysql, "SET GLOBAL binlog_row_image = 'MINIMAL'")
    with running(wanted, tmp_path) as worker:
        error = shows(worker, "PreflightError", "restart")
        for statement in re.findall(r"SET (?:GLOBAL|PERSIST) \w+ = '?\w+'?", error):
            run(mysql, statement)
        done = command("destination", "restart", "shop")
        assert done.returncode == 0, done.stdout + done.stderr
        run(mysql, "INSERT INTO shop.t VALUES (2)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)

        refused = command("schema", "resolve", "shop", "shop.t", "--server")
        assert (refused.returncode, "NotQuarantined" in refused.stderr) == (1, True), refused.stderr
        listed = command("schema", "quarantine", "shop")
        assert listed.returncode == 0, listed.stderr
        of_another = ("--at", "other.000001:4", "--server", "00000000-0000-0000-0000-000000000001")
        refused = command("schema", "show", "shop", "shop.t", *of_another)
        assert "PositionUnknown" in refused.stderr
        assert "as file:pos of a server that was read then" in refused.stderr
        known = worker.destination()["cursor"]
        shown = command(
            "schema", "show", "shop", "shop.t", "--at", f"{known['file']}:{known['pos']}"
        )
        assert shown.returncode == 0, shown.stderr
        refused = command("schema", "impact", "shop", "ALTER TABLE shop.t FROB x")
        assert "DdlUnresolved" in refused.stdout + refused.stderr
        judged = command("schema", "impact", "shop", "ALTER TABLE shop.t ADD x int")
        assert judged.returncode == 0, judged.stdout + judged.stderr

        for more, error in ((0, "PositionPastEnd"), (300, "SourceReset")):
            assert worker.stop() == 0
            run(mysql, "RESET BINARY LOGS AND GTIDS")
            run(mysql, *(f"INSERT INTO shop.t VALUES ({n})" for n in range(10, 10 + more)))
            with running(wanted, tmp_path) as worker:
                printed = shows(worker, error)
                (words,) = re.findall(r"python -m app (cursor set shop --\w+) --why", printed)
                done = command(*words.split(), "--why", "reset", "--yes-lose-changes")
                assert done.returncode == 0, done.stderr
                run(mysql, f"INSERT INTO shop.t VALUES ({1000 + more})")
                worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] > 0)
                assert worker.stop() == 0
    assert published(stack, wanted) == [2, 1000, *range(10, 310), 1300]


@pytest.mark.remedy("IncidentInBinlog", "UnsupportedEvent", "CorruptEvent")
@pytest.mark.remedy("EndPositionUnknown")
def test_what_the_binlog_has_lost_is_passed_by_the_commands_that_errors_name(
    stack: Stack, mysql: Mysql, tmp_path: Path, command: Command
) -> None:
    # The server writes an incident where rows of a table without transactions do not fit its cache.
    run(
        mysql,
        "SET GLOBAL max_binlog_stmt_cache_size = 4096",
        "CREATE TABLE shop.m (id int, t longtext) ENGINE = MyISAM",
    )
    wanted = settings(stack, mysql, tmp_path, decoders=0)
    (tmp_path / "aqueduct.yaml").write_text(yaml.safe_dump(wanted))
    # Of what the account may not see, the server says nothing.
    run(mysql, "REVOKE REPLICATION CLIENT ON *.* FROM 'aqueduct'@'%'")
    refused = command("cursor", "set", "shop", "--latest", "--why", "x")
    (grant,) = re.findall(
        r"EndPositionUnknown: .*(GRANT REPLICATION CLIENT ON .* TO )it;", refused.stderr
    )
    run(mysql, f"{grant} 'aqueduct'@'%'")
    done = command("cursor", "set", "shop", "--latest", "--why", "x")
    assert done.returncode == 0, done.stdout + done.stderr

    with running(wanted, tmp_path) as worker:
        run(mysql, "INSERT INTO shop.t VALUES (2)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
        assert worker.stop() == 0

    with pytest.raises(pymysql.err.OperationalError, match="max_binlog_stmt_cache_size"):
        run(mysql, "INSERT INTO shop.m VALUES (1, REPEAT('x', 100000))")
    file = end_of(mysql).file
    run(mysql, *(f"INSERT INTO shop.t VALUES ({n})" for n in range(10, 20)))
    run(mysql, "FLUSH BINARY LOGS", "INSERT INTO shop.t VALUES (20)")
    path = mysql.data / file
    written = bytearray(path.read_bytes())
    rows_of = [
        at
        for kind, at, _ in walk(bytes(written), 4, len(written), 0)
        if kind == EventType.WRITE_ROWS
    ]
    unknown, damaged, endless = rows_of[2], rows_of[4], rows_of[8]
    written[unknown + 4] = 200
    _, _, end = next(walk(bytes(written), unknown, len(written), 0))
    written[end - 4 : end] = zlib.crc32(written[unknown : end - 4]).to_bytes(4, "little")
    written[damaged + 30] ^= 1
    # Of an event whose length is damaged, and of all after it, the server sends nothing.
    written[endless + 9 : endless + 13] = (5).to_bytes(4, "little")
    path.write_bytes(written)
    with running(wanted, tmp_path) as worker:
        for error, lacks in (
            ("IncidentInBinlog", "changes were not written"),
            ("UnsupportedEvent", "type 200"),
        ):
            skipped_as_printed(command, shows(worker, error, lacks))
        failed = worker.wait(
            lambda status: (
                status["state"] == "FAILED" and str(status["error"]).startswith("CorruptEvent: ")
            )
        )
        skipped_as_printed(command, failed["error"])
        failed = worker.wait(
            lambda status: (
                status["state"] == "FAILED" and "cannot read its binlog" in str(status["error"])
            )
        )
        (words,) = re.findall(
            r"python -m app (cursor set shop --file) FILE --pos 4", failed["error"]
        )
        done = command(
            *words.split(), end_of(mysql).file, "--pos", "4", "--why", "x", "--yes-lose-changes"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        run(mysql, "INSERT INTO shop.t VALUES (21)")
        until(lambda: published(stack, wanted)[-1:] == [21])
        assert worker.destination()["state"] == "RUNNING"
    assert published(stack, wanted) == [2, 10, 11, 13, 15, 16, 17, 20, 21]


@pytest.mark.long(
    "make test has an incident of MySQL; unit/connectors/mysql/stream/test_cutter.py has one before the start"
)
@pytest.mark.remedy("IncidentInBinlog")
def test_an_incident_without_a_gtid_is_passed_by_its_end_and_met_no_more(
    stack: Stack, tmp_path: Path, command: Command
) -> None:
    statements = (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY)",
        "CREATE TABLE shop.m (id int, t longtext) ENGINE = MyISAM",
        "SET GLOBAL max_binlog_stmt_cache_size = 4096",
    )
    with own_server(
        "mariadb-11.8", tmp_path / "server", *statements, options={"server_id": 44}
    ) as mariadb:
        wanted = settings(stack, mariadb, tmp_path, decoders=0)
        with running(wanted, tmp_path) as worker:
            run(mariadb, "INSERT INTO shop.t VALUES (1)")
            worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
            with pytest.raises(pymysql.err.OperationalError, match="max_binlog_stmt_cache_size"):
                run(mariadb, "INSERT INTO shop.m VALUES (1, REPEAT('x', 100000))")
            run(mariadb, "INSERT INTO shop.t VALUES (2)")
            error = shows(worker, "IncidentInBinlog", "cursor set shop --file FILE --pos POS")
            (end,) = re.findall(r"ends_at=([\w.]+:\d+)", error)
            file, _, pos = end.partition(":")
            done = command("cursor", "set", "shop", "--file", file, "--pos", pos, "--why", "x")
            assert done.returncode == 0, done.stderr
            worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 2)
            assert worker.stop() == 0
        # The server sends it again to each reader that begins in this file.
        with running(wanted, tmp_path) as worker:
            run(mariadb, "INSERT INTO shop.t VALUES (3)")
            worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
        assert published(stack, wanted) == [1, 2, 3]


def skipped_as_printed(command: Command, error: str) -> None:
    """Run the command that an error names, with the GTID that it names."""
    (words,) = re.findall(r"python -m app (cursor skip shop --gtid) GTID", error)
    (gtid,) = re.findall(r"gtid=([\w:-]+)", error)
    done = command(*words.split(), gtid, "--why", "lost", "--yes-lose-changes")
    assert done.returncode == 0, done.stdout + done.stderr


def published(stack: Stack, wanted: dict[str, Any]) -> list[int]:
    return [one.value["after"]["id"] for one in rows(stack, wanted["prefix"], "t")]
