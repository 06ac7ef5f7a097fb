"""Requests reach the leader, whichever worker has the partition; a command names the worker that applied it."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import pytest

from app.__main__ import main
from devstack import Stack
from tables.journal.state import partition_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run

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
