"""The audit's exit codes, and its witness."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.audit.errors import ProgramMissing
from app.audit.topics.topics import KafkaTopics
from app.audit.truth.witness import WitnessName
from app.operator import audit
from app.operator.audit import audit_destination, mysqlbinlog_command, run_beside_kafka
from app.settings.model import Settings
from connectors.errors import UsageError
from tests.unit.app.audit.truth.test_mysqlbinlog import executable

SETTINGS = cast(Settings, None)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    audit.configure_audit(parser)
    return parser.parse_args(["shop", *words])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), {}),
        (("--witness", "mysql-replication"), {"witness": WitnessName.MYSQL_REPLICATION}),
        (("--witness", "mysqlbinlog"), {"witness": WitnessName.MYSQLBINLOG}),
        (("--mysqlbinlog", "other -v"), {"mysqlbinlog": "other -v"}),
        (
            ("--server", "u", "--binlogs", "a", "b"),
            {"binlogs": [Path("a"), Path("b")], "server": "u"},
        ),
    ],
)
@pytest.mark.parametrize(("clean", "complete", "code"), [(0, 1, 1), (1, 1, 0), (1, 0, 3)])
def test_the_witness_is_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    given: dict[str, Any],
    clean: int,
    complete: int,
    code: int,
) -> None:
    asked: dict[str, Any] = {}

    async def made(_settings: object, destination: str, **wanted: Any) -> Any:
        asked.update(wanted, destination=destination)
        return SimpleNamespace(
            is_clean=clean, is_complete=complete, to_json=dict, lines=lambda: ["audited"]
        )

    monkeypatch.setattr(audit, "audit_destination", made)
    monkeypatch.setattr(audit, "load", lambda: None)
    assert audit.run_audit(options(*words)) == code
    nothing = dict.fromkeys(("begin", "until", "witness", "mysqlbinlog", "server", "sink", "dump"))
    assert asked == {**nothing, "binlogs": (), "destination": "shop", **given}


@pytest.mark.parametrize("more", [{"binlogs": [Path("x")]}, {"mysqlbinlog": "x"}])
async def test_the_second_witness_takes_no_files_and_no_program(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="mysql-replication reads the server itself"):
        await audit_destination(SETTINGS, "shop", witness=WitnessName.MYSQL_REPLICATION, **more)


async def test_files_are_taken_only_with_their_server() -> None:
    with pytest.raises(UsageError, match="--binlogs needs --server UUID"):
        await audit_destination(SETTINGS, "shop", binlogs=[Path("x")])


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))


@pytest.mark.remedy("ProgramMissing")
def test_the_witness_is_the_first_that_is_there(tmp_path: Path) -> None:
    assert mysqlbinlog_command(None) is None
    with pytest.raises(ProgramMissing):
        mysqlbinlog_command(WitnessName.MYSQLBINLOG)
    with pytest.raises(ProgramMissing):
        mysqlbinlog_command(None, "other")
    found = executable(tmp_path / "path/mysqlbinlog")
    assert mysqlbinlog_command(None) == mysqlbinlog_command(None, reads_files=True) == (found,)
    assert mysqlbinlog_command(WitnessName.MYSQL_REPLICATION) is None
    elsewhere = executable(tmp_path / "elsewhere/mysqlbinlog")
    assert mysqlbinlog_command(None, elsewhere) == (elsewhere,)


async def test_an_audit_blocks_in_a_thread_of_its_own_while_the_loop_reads_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = threading.current_thread()

    async def counts(_self: object) -> dict[str, int]:
        assert threading.current_thread() is here
        return {"t": 2}

    monkeypatch.setattr("app.audit.topics.topics.Topics.counts", counts)

    def work(kafka: KafkaTopics) -> tuple[dict[str, int], threading.Thread]:
        return dict(kafka.topics()), threading.current_thread()

    found, thread = await run_beside_kafka({}, work)
    assert found == {"t": 2}
    assert thread is not here
