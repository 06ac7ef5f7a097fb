"""An operator's requests to one worker without ZooKeeper, and the flag for a new position after a purge."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.__main__ import main
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.harness.topics import rows
from tests.harness.worker import Worker, running, settings


def test_requests_reach_a_running_worker_and_a_gap_is_skipped_only_on_request(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    person = Person(capsys, monkeypatch)
    mysql = stack.second_mysql(tmp_path.name, {"server_id": 9})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        wanted = settings(stack, mysql, tmp_path, decoders=0)

        def ids() -> list[int]:
            return [one.value["after"]["id"] for one in rows(stack, wanted["prefix"], "t")]

        with running(wanted, tmp_path) as worker:
            _insert(mysql, 1)
            worker.wait(lambda status: status["rows"] == 1)
            _paused_resumed_restarted(mysql, worker, person)
            _mistyped(wanted, tmp_path, monkeypatch, capsys)
            assert ids() == [1, 2]
            _purged(mysql, worker, person)
            assert ids() == [1, 2, 4]
            _reset(mysql, worker, person)
            assert ids() == [1, 2, 4, 6]
            _reset_while_it_runs(mysql, worker, person)
            assert ids() == [1, 2, 4, 6, 7]
            assert worker.stop() == 0
            assert "Traceback" not in worker.log
    finally:
        mysql.kill()


def test_a_pause_that_a_restart_outlasts_shows_how_much_waits_and_for_how_long(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    person = Person(capsys, monkeypatch)
    mysql = stack.second_mysql(tmp_path.name, {"server_id": 9, "binlog_expire_logs_seconds": 3600})
    mysql.start()
    try:
        run(mysql, "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        wanted = settings(stack, mysql, tmp_path, decoders=0)
        with running(wanted, tmp_path) as worker:
            _insert(mysql, 1)
            worker.wait(lambda status: status["rows"] == 1)
            person.does("destination", "pause", "shop")
            before = worker.destination()["cursor"]
            assert worker.stop() == 0
        _insert(mysql, 2)
        began = time.time()
        time.sleep(3)
        with running(wanted, tmp_path) as worker:
            found = worker.wait(
                lambda status: status["unread_seconds"] is not None and status["until_purged"]
            )
            late = time.time() - began
            assert (found["state"], found["rows"]) == ("PAUSED", 0)
            assert (found["cursor"]["file"], found["cursor"]["pos"]) == (
                before["file"],
                before["pos"],
            )
            # It is as old as the change, not as this worker; the watch looks each ten seconds.
            assert 3 - 1 <= found["unread_seconds"] <= late + 1
            assert found["until_purged"]["hours_if_stopped"] <= 1
            worker.wait(lambda status: status["lag_seconds"] > found["lag_seconds"] + 5)
            page = worker.get("/metrics")
            for name in ("lag_seconds", "unread_seconds", "seconds_until_purged_if_stopped"):
                shown = re.search(
                    rf'^aqueduct_source_{name}{{destination="shop"}} (.*)$', page, re.M
                )
                assert shown is not None, name
                assert float(shown[1]) > 2, name
            person.does("destination", "resume", "shop")
            worker.wait(lambda status: status["rows"] == 1 and status["unread_seconds"] == 0)
            assert worker.stop() == 0
            assert "Traceback" not in worker.log
    finally:
        mysql.kill()


def _paused_resumed_restarted(mysql: Mysql, worker: Worker, person: Person) -> None:
    code, result = person.says("destination", "pause", "shop", "--format", "json")
    assert (code, json.loads(result)["applied"]["state"]) == (0, "PAUSED")
    assert worker.destination()["state"] == "PAUSED"
    _insert(mysql, 2)
    time.sleep(1.5)
    assert worker.destination()["rows"] == 1
    person.does("destination", "resume", "shop")
    worker.wait(lambda status: status["rows"] == 2 and status["state"] == "RUNNING")
    epoch = worker.destination()["cursor"]["epoch"]
    person.does("destination", "restart", "shop")
    worker.wait(lambda status: status["state"] == "RUNNING" and status["cursor"]["epoch"] > epoch)


def _mistyped(
    wanted: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another prefix than the worker's: each command names those that there are."""
    file = folder / "mistyped.yaml"
    file.write_text(yaml.safe_dump(wanted | {"prefix": "mistyped"}))
    with monkeypatch.context() as changed:
        changed.setenv("AQUEDUCT_CONFIG", str(file))
        for words in ("destination list", "cursor show shop", "snapshot start shop shop.t"):
            assert main(words.split()) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert "StateUnknown: " in line
            assert "Kafka has no topic mistyped.__journal" in line
            assert wanted["prefix"] in line


def _purged(mysql: Mysql, worker: Worker, person: Person) -> None:
    person.does("destination", "stop", "shop")
    worker.wait(_is("STOPPED"))
    _insert(mysql, 3)
    with connected(mysql) as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchall()[-1][0]}'")
    _insert(mysql, 4)
    code, result = person.says("destination", "resume", "shop")
    assert (code, "shop: FAILED, applied by worker " in result) == (1, True), result
    why = worker.wait(_is("FAILED"))["error"]
    assert why.startswith("PositionPurged: ")
    assert why in result
    # What it names can be typed as it stands.
    words = shlex.split(re.findall(r"`python -m (app cursor set shop [^`]+)`", why)[0])
    assert words[3:] == ["shop", "--latest", "--with-snapshot", "--why", "REASON"]
    assert "or accept the gap, and resume from the oldest change available: --earliest" in why
    words[4:6] = ["--earliest"]
    code, result = person.says(*words[1:])
    assert code == 1
    assert "forward: 1 transaction(s) are never published" in result
    assert "NotConfirmed" in result
    assert "NotConfirmed" in person.types("shopp", *words[1:])[1]
    assert worker.destination()["state"] == "FAILED"
    code, result = person.types("shop", *words[1:])
    assert (code, "Type 'shop' to continue" in result) == (0, True), result
    worker.wait(lambda status: status["rows"] == 3 and status["state"] == "RUNNING")


def _reset(mysql: Mysql, worker: Worker, person: Person) -> None:
    person.does("destination", "pause", "shop")
    worker.wait(_is("PAUSED"))
    run(mysql, "RESET BINARY LOGS AND GTIDS")
    _insert(mysql, 5)
    assert person.says("destination", "resume", "shop")[0] == 1
    why = worker.wait(_is("FAILED"))["error"]
    assert why.startswith("PositionPastEnd: ")
    assert "cursor set shop --earliest" in why
    code, result = person.says("cursor", "set", "shop", "--earliest", "--why", "reset")
    assert code == 1
    # What is no more is not said to come again.
    assert "published again" not in result
    assert "the binlog is not the one that was read" in result
    assert "of its 1 transaction(s), 0 are never published, 1 are published as new" in result
    person.does("cursor", "set", "shop", "--latest", "--why", "reset", "--yes-lose-changes")
    worker.wait(_is("RUNNING"))
    _insert(mysql, 6)
    worker.wait(lambda status: status["rows"] == 4)


def _reset_while_it_runs(mysql: Mysql, worker: Worker, person: Person) -> None:
    run(mysql, "RESET BINARY LOGS AND GTIDS")
    _insert(mysql, 7)
    why = worker.wait(_is("FAILED"))["error"]
    assert "cursor set shop --earliest" in why
    words = ("cursor", "set", "shop", "--earliest", "--why", "reset")
    code, result = person.says(*words)
    assert (code, "published again" in result) == (1, False), result
    assert "the binlog is not the one that was read" in result
    person.does(*words, "--yes-lose-changes")
    worker.wait(lambda status: status["rows"] == 5)


def _insert(mysql: Mysql, number: int) -> None:
    run(mysql, f"INSERT INTO shop.t VALUES ({number})")


def _is(state: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: bool(status["state"] == state)


@dataclass(frozen=True, slots=True)
class Person:
    """At a terminal, or without one."""

    printed: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def says(self, *words: str) -> tuple[int, str]:
        """A command's exit code and output."""
        self.printed.readouterr()
        code = main([*words])
        return code, "".join(self.printed.readouterr())

    def does(self, *words: str) -> None:
        """Request something that must be applied at once."""
        code, result = self.says(*words)
        assert code == 0, result

    def types(self, answer: str, *words: str) -> tuple[int, str]:
        """The same where the question is answered at a terminal."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, f"{answer}\n".encode())
            with self.patch.context() as patch, os.fdopen(theirs) as terminal:
                patch.setattr(sys, "stdin", terminal)
                return self.says(*words)
        finally:
            os.close(ours)
