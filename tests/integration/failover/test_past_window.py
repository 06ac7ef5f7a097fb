"""A past changed while a run begins is detected, and files purged on an idle source raise no alarm."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings
from tests.integration.failover.servers import insert, notes
from tests.integration.failover.setting import has_rows, shows
from tests.integration.failover.test_past_changed import _TABLE, server

__all__ = ["server"]


def test_a_reset_between_the_proof_and_the_opening_of_the_binlog_is_seen(
    stack: Stack, server: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(stack, server, tmp_path, decoders=0, heartbeat_seconds=1)
    with running(given, tmp_path) as worker:
        insert(server, *"abcde")
        has_rows(worker, 5)
        assert worker.stop() == 0
    monkeypatch.setenv(VARIABLE, "claim.after=freeze")
    with running(given, tmp_path) as worker:
        until(lambda: _is_frozen(worker))
        # The same sizes again, so that the cursor's place is between two transactions of the new binlog too.
        ask(server, "DROP DATABASE shop", "RESET BINARY LOGS AND GTIDS", *_TABLE)
        insert(server, *"vwxyz", *[f"after {n}" for n in range(100)])
        worker.process.send_signal(signal.SIGCONT)
        shows(worker, "FAILED", "SourceReset")
    assert notes(stack, given["prefix"]) == [*"abcde"]


def _is_frozen(worker: Worker) -> bool:
    stat = Path(f"/proc/{worker.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def test_an_idle_source_that_purges_all_that_was_read_continues(
    stack: Stack, server: Mysql, tmp_path: Path
) -> None:
    given = settings(stack, server, tmp_path, decoders=0, heartbeat_seconds=1)
    with running(given, tmp_path) as worker:
        insert(server, "one")
        has_rows(worker, 1)
        last = _rotated(server)
        worker.wait(lambda status: status["cursor"]["file"] == last)
        ask(server, f"PURGE BINARY LOGS TO '{last}'")
        assert worker.stop() == 0
    # A reset after the server's next start would not show, so that only the head of the file is a proof.
    server.stop()
    server.start()
    with running(given, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        insert(server, "two")
        has_rows(worker, 1)
    assert notes(stack, given["prefix"]) == ["one", "two"]


def _rotated(server: Mysql) -> str:
    ask(server, "FLUSH BINARY LOGS")
    return str(ask(server, "SHOW BINARY LOGS")[-1][0])
