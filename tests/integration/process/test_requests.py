"""Requests reach the leader, whichever worker has the partition; a command names the worker that applied it."""

from __future__ import annotations

import argparse
import signal
import uuid
from pathlib import Path

import pytest

from app.__main__ import main
from app.operator.commands import GROUPS, command
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.journal.state import partition_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.harness.worker import running, settings

NAMES = ("a4", "a2", "shop", "a1")
"""One destination in each partition."""


def test_each_request_is_applied_by_the_leader(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [partition_of(name, 4) for name in NAMES] == [0, 1, 2, 3]
    database = f"asked{uuid.uuid4().hex[:8]}"
    run(stack.mysql, f"CREATE DATABASE {database}")
    for name in NAMES:
        run(stack.mysql, f"CREATE TABLE {database}.{name} (id int PRIMARY KEY)")
    wanted = pair_settings(stack, stack.mysql, tmp_path, names=NAMES, database=database)
    for one in wanted["destinations"].values():
        one["decoders"] = 0

    def asks(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["destination", *words])
        return code, "".join(capsys.readouterr())

    with Pair(wanted, tmp_path) as pair:
        pair.start("a")
        pair.start("b")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("a")))
        pair.until(lambda: sorted(str(pair.leader(name)) for name in NAMES) == ["a", "a", "b", "b"])
        leaders = {name: pair.leader(name) for name in NAMES}
        for word, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
            for name in NAMES:
                code, result = asks(word, name)
                assert (code, result.partition(",")[0]) == (0, f"{name}: {state}"), result
                if word != "stop":
                    assert f"applied by worker {leaders[name]} " in result
                    assert pair.states(name)[leaders[name]] == state
            if word != "stop":
                code, result = asks("list")
                assert code == 0, result
                found = {line.split()[0]: line.split()[1:4] for line in result.splitlines()[1:]}
                wish = "pause" if word == "pause" else "run"
                assert found == {name: [state, wish, leaders[name]] for name in NAMES}
        for each in ("a", "b"):
            pair.workers[each].process.send_signal(signal.SIGTERM)
        for each in ("a", "b"):
            assert pair.workers[each].process.wait(60) == 0
            assert "Traceback" not in pair.workers[each].log
        code, result = asks("resume", "shop", "--timeout", "1")
        assert (code, "NotApplied: " in result, "no worker runs" in result) == (1, True, True), (
            result
        )
        code, result = asks("resume", "shop", "--no-wait")
        assert (code, "no worker has confirmed it" in result) == (0, True), result


def waiting_commands() -> set[tuple[str, str]]:
    """The commands that wait for a worker."""
    found = set()
    for group, commands in GROUPS.items():
        for name in commands.commands:
            parser = argparse.ArgumentParser()
            command(group, name).configure(parser)
            if "--timeout" in parser.format_help():
                found.add((group, name))
    return found


def test_no_command_succeeds_whose_request_no_worker_has_confirmed(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "SET sql_log_bin = 0", "ALTER TABLE shop.t MODIFY x bigint FIRST")
        run(mysql, "CREATE TABLE shop.u (id int PRIMARY KEY)", "INSERT INTO shop.t VALUES (1, 1)")
        worker.wait(lambda status: bool(status["set_aside"]))
        assert worker.stop() == 0
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    verbs = ("pause", "resume", "restart", "stop", "add", "delete")
    requests: dict[tuple[str, str], tuple[str, ...]] = {
        **{("destination", verb): () for verb in verbs},
        ("source", "switch"): (f"127.0.0.1:{mysql.port}",),
        ("schema", "resolve"): ("shop.t", "--server"),
        ("snapshot", "start"): ("shop.u",),
    }
    # That of shards needs a mapping, and the others of a snapshot one that a worker has begun.
    begun = {("snapshot", verb) for verb in ("pause", "resume", "stop")}
    # It restarts the destination by the same request as `restart`.
    restarts = {("destination", "accept-topic")}
    assert {*requests, ("shards", "resolve"), *begun, *restarts} == waiting_commands()
    for (group, name), more in requests.items():
        capsys.readouterr()
        code = main([group, name, "shop", *more, "--timeout", "1"])
        output = capsys.readouterr()
        assert (code, output.out, output.err.count("\n")) == (1, "", 1), (group, name, output)
        assert "NotApplied: No worker has applied the request" in output.err
        assert "not applied within 1 s" in output.err
